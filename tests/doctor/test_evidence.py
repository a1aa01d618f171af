"""The rules on facts: what a log tells where no sentence is known, and what its machine changes."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from provision.core.findings import Finding, Level
from provision.doctor import diagnose_log, logs
from provision.doctor.data import data
from provision.doctor.evidence import Evidence
from provision.doctor.failures import last_failure
from provision.doctor.matcher import Search, literals
from provision.doctor.sampling import sample

HERE = Path(__file__).parent
FILE = tomllib.loads((HERE / "evidence.toml").read_text(encoding="utf-8"))
CASES, SHOWS = FILE["log"], FILE["shows"]
LOGS = tomllib.loads((HERE / "logs.toml").read_text(encoding="utf-8"))["log"]
FAMILIES = tomllib.loads((HERE / "families.toml").read_text(encoding="utf-8"))["family"]
ENDS = {
    "building",
    "hook-fails",
    "nvidia-smi-absent",
    "other-architecture",
    "nvcc-dropped",
    "colon-path",
    "conda-cache-damaged",
    "installation-failed",
}
OWN = {"not-environment", "not-recognised"}
RULES = logs.log_rules


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """No rule of a sentence is known; the rules on facts that fire are added to the set."""
    fired, fires = set[int](), logs._fires

    def noted(rule: logs.LogRule, search: Search, evidence: Evidence) -> object:
        hit = fires(rule, search, evidence)
        fired.update([id(rule)] if hit else [])
        return hit

    monkeypatch.setattr(
        logs,
        "log_rules",
        lambda table="log_rules": RULES(table) if table == "evidence" else (),
    )
    monkeypatch.setattr(logs, "_fires", noted)
    return fired


def evidence(text: str) -> Evidence:
    lines = sample(text)
    return Evidence(Search(lines), last_failure(lines, set()), set())


def holds(case: dict[str, object], found: list[Finding]) -> None:
    assert [finding.code for finding in found][:1] == [case["code"]], found
    assert found[0].bad == (case["code"] not in OWN and "note" not in case)
    assert str(case.get("remedy", "")) in found[0].remedy


@pytest.mark.parametrize("case", [case for case in CASES if "alone" not in case])
def test_facts_decide_where_no_sentence_is_known(case: dict[str, object]) -> None:
    holds(case, diagnose_log(str(case["text"])))


@pytest.mark.parametrize("case", [case for case in CASES if "alone" in case])
@pytest.mark.usefixtures("alone")
def test_facts_decide_alone(case: dict[str, object]) -> None:
    holds(case, diagnose_log(str(case["text"])))


def test_without_any_sentence_the_class_of_many_logs_is_still_told(
    alone: set[int],
) -> None:
    codes = [(case["code"], diagnose_log(case["text"])) for case in LOGS]
    assert sum(
        bool(found) and found[0].code == code for code, found in codes
    ) > 0.45 * len(codes)
    # Whose environment is at fault is not told that their program is.
    wrong = [
        code
        for code, found in codes
        if code not in {*OWN, "out-of-memory"}
        and found
        and found[0].code == "not-environment"
    ]
    assert len(wrong) < 0.04 * len(codes), wrong
    for case in [
        *CASES,
        *(case for row in FAMILIES for case in map(_text, row["positive"])),
    ]:
        diagnose_log(str(case["text"]))
    idle = [rule.any for rule in RULES("evidence") if id(rule) not in alone]
    assert idle == [], "these rules on facts have no case"


def _text(text: str) -> dict[str, object]:
    return {"text": text}


def test_no_pattern_reads_the_rest_of_a_line_from_each_of_its_characters() -> None:
    """An error of 3,000 characters took fifteen seconds: `^` goes before such a look-ahead."""
    everywhere = re.compile(r"(?:\((?:\?-?\w*:)?)*\(\?[!=]\.[*+]")
    patterns = {
        p
        for name in ("log_rules", "evidence")
        for rule in RULES(name)
        for p in rule.any
    }
    assert [pattern for pattern in patterns if everywhere.match(pattern)] == []


def test_every_row_of_the_context_changes_a_finding() -> None:
    remedies = {
        finding.remedy for case in CASES for finding in _both(str(case["text"]))
    }
    assert [
        row for row in data("evidence")["context"] if row.get("remedy") not in remedies
    ] == []


@cache
def _both(text: str) -> tuple[Finding, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            logs, "log_rules", lambda t="log_rules": RULES(t) if t == "evidence" else ()
        )
        without = diagnose_log(text)
    return (*without, *diagnose_log(text))


@pytest.mark.parametrize("fact", data("evidence")["facts"])
def test_each_pattern_of_a_fact_shows_it(fact: str) -> None:
    patterns = data("evidence")["facts"][fact]
    for line in SHOWS[fact]:
        assert evidence(line).agrees([fact], [])
    for pattern in patterns:
        assert any(re.search(pattern, line, re.IGNORECASE) for line in SHOWS[fact]), (
            pattern
        )
        assert min(map(len, literals(pattern))) >= 2, (
            f"the search for {pattern} would be slow"
        )


@pytest.mark.parametrize(
    ("text", "conflict", "found"),
    [
        ("torch 2.9.1+cu130\nDriver Version: 575.64.05", "driver-below-cuda", True),
        ("torch 2.9.1+cu130\nDriver Version: 580.65.06", "driver-below-cuda", False),
        ("torch 2.9.1+cu128\nDriver Version: 550.54.14", "driver-below-cuda", False),
        ("torch 2.9.1+cu128", "driver-below-cuda", False),
        ("torch 2.9.1\ntorchvision 0.24.1", "vision-of-another-torch", False),
        ("torch 2.9.1\ntorchvision 0.25.0", "vision-of-another-torch", True),
        ("torch 2.9.1\ntorchvision 0.23.0", "vision-of-another-torch", True),
        ("torch==2.1.2\nPython version: 3.12.1", "python-above-torch", True),
        ("torch==2.2.2\nPython version: 3.12.1", "python-above-torch", False),
    ],
)
def test_versions_that_exclude_each_other(
    text: str, conflict: str, found: bool
) -> None:
    assert evidence(text).agrees([conflict], []) == found


def test_nothing_is_said_of_a_log_that_only_names_machines_and_versions() -> None:
    for fact, lines in SHOWS.items():
        if fact in ENDS:
            continue  # one of its lines is the end of what failed
        assert not [
            finding for finding in diagnose_log("\n".join(lines)) if finding.bad
        ]


ZE = "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"
DLL = "ImportError: DLL load failed while importing {}: The specified procedure could not be found."
OCI = "Error response from daemon: OCI runtime create failed: {}: unknown"


@pytest.mark.parametrize(
    ("code", "line", "becomes"),
    [
        ("driver-upgrade-broke-xpu", ZE, "out-of-memory"),
        (
            "driver-upgrade-broke-xpu",
            "UR_RESULT_ERROR_INVALID_BINARY",
            "driver-upgrade-broke-xpu",
        ),
        (
            "missing-dll-windows",
            DLL.format("quux_cuda"),
            "compiled-extension-abi-mismatch",
        ),
        ("missing-dll-windows", DLL.format("_C"), "missing-dll-windows"),
        (
            "docker-not-usable",
            OCI.format("nvidia-container-quux"),
            "no-gpu-device-visible",
        ),
        ("docker-not-usable", OCI.format("no such file"), "docker-not-usable"),
    ],
)
def test_a_general_finding_yields_to_the_words_of_its_line(
    code: str, line: str, becomes: str
) -> None:
    found = Finding(code, Level.ERROR, "", "", "", (f"line 1: {line}",))
    assert evidence(line).in_context(found, general=True).code == becomes
    assert evidence(line).in_context(found, general=False).code == code


def test_a_general_finding_shows_its_place_and_what_is_excluded() -> None:
    frames = (
        '  File "/w/train.py", line 1, in <module>\n    import quux\n'
        '  File "/v/site-packages/quux/__init__.py", line 3, in <module>\n    from . import _C'
    )
    log = f"Driver Version: 580.1\nTraceback (most recent call last):\n{frames}\n"
    (found, *_) = diagnose_log(
        f"{log}ImportError: DLL load failed while importing _C: quux"
    )
    assert found.code == "missing-dll-windows"
    assert "/v/site-packages/quux/__init__.py" in found.evidence[1]
    assert found.evidence[2] == "excluded: an NVIDIA driver that is missing"
