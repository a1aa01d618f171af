"""Logs to findings: what users paste, what was provoked on purpose, decoys, noise and garbage."""

from __future__ import annotations

import json
import random
import re
import tomllib
from pathlib import Path

import pytest

from provision.doctor import diagnose_log
from provision.doctor.logs import all_patterns, rules, texts
from provision.doctor.patterns import Search, needles
from provision.doctor.sample import sample
from provision.finding import Level

HERE = Path(__file__).parent
LOGS = tomllib.loads((HERE / "logs.toml").read_text(encoding="utf-8"))["log"]
# Real output of failures that were provoked on purpose, paths made plain.
RUNS = json.loads((HERE / "runs.json").read_text(encoding="utf-8"))
# r59's log is that of r09 to the letter: PYTHONPATH, its cause, shows in the environment only.
NOT_IN_THE_LOG = {"r59_setpath_mixed"}
EVERYTHING = [log["text"] for log in LOGS] + [run["log"] for run in RUNS]


@pytest.mark.parametrize("log", LOGS, ids=[f"{i}-{log['code']}" for i, log in enumerate(LOGS)])
def test_first_finding_is_the_cause(log: dict[str, object]) -> None:
    found = diagnose_log(str(log["text"]))
    codes = [finding.code for finding in found]
    assert codes[:1] == [log["code"]], found
    assert set(log.get("also", ())) <= set(codes)
    if log["code"] == "not-environment":
        assert not any(finding.bad for finding in found), "a decoy was accused"


@pytest.mark.parametrize("run", RUNS, ids=[run["id"] for run in RUNS])
def test_provoked_failures(run: dict[str, str]) -> None:
    found = diagnose_log(run["log"])
    if run["id"] in NOT_IN_THE_LOG:
        assert found[0].code == "torch-companion-mismatch"
        return
    assert found[0].code == run["code"], found
    if run["code"] == "not-environment":
        assert len(found) == 1


def test_every_code_is_told_and_shown() -> None:
    in_environments = {"half-installed", "missing-library", "stale-kernel-cache"}
    assert {rule.code for rule in rules()} == set(texts()) - in_environments
    assert {log["code"] for log in LOGS} | in_environments >= set(texts())


def test_every_code_is_documented() -> None:
    page = (HERE.parents[1] / "docs" / "findings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE)) == set(texts())


def test_findings_are_complete() -> None:
    for text in EVERYTHING:
        for finding in diagnose_log(text):
            assert finding.evidence[0].startswith("line ")
            for words in (finding.symptom, finding.cause, finding.remedy):
                assert words.strip()
                assert "{" not in words


def test_noise_does_not_hide_the_error() -> None:
    noise = "  Overriding a previously registered kernel for the same operator\n"
    found = diagnose_log(noise * 50 + "ImportError: libsycl.so.8: cannot open shared object file\n")
    assert [finding.code for finding in found] == [
        "oneapi-runtime-missing",
        "kernel-override-warning-benign",
    ]
    assert found[1].level is Level.NOTE


def test_a_log_without_failure_says_nothing() -> None:
    assert diagnose_log("epoch 1 loss 0.3\nepoch 2 loss 0.2\ndone\n") == []
    assert diagnose_log("") == []


def test_evidence_is_the_line() -> None:
    found = diagnose_log("one\ntwo\nKeyError: 'xpu:0'\n")
    assert found[0].evidence == ("line 3: KeyError: 'xpu:0'",)


def test_what_was_survived_is_not_blamed() -> None:
    handled = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'triton'\n"
    own = 'Traceback (most recent call last):\n  File "a.py", line 1\nIndexError: out of range\n'
    assert diagnose_log(handled + own)[0].code == "not-environment"
    launcher = "Traceback (most recent call last):\ntorch.distributed.elastic.ChildFailedError:\n"
    assert diagnose_log(handled + launcher)[0].code == "triton-missing-or-incompatible"


def test_the_cause_of_a_chain_is_found() -> None:
    first = (
        "Traceback (most recent call last):\n"
        "ImportError: libsycl.so.8: cannot open shared object file\n"
    )
    second = (
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\nRuntimeError: Failed to import the model\n"
    )
    assert diagnose_log(first + second)[0].code == "oneapi-runtime-missing"


def test_pip_lists_that_only_offer_newer_versions_mean_an_old_pin() -> None:
    line = (
        "ERROR: Could not find a version that satisfies the requirement torch=={} "
        "(from versions: 2.5.0, 2.6.0)"
    )
    assert diagnose_log(line.format("2.1.2"))[0].code == "python-version-unsupported"
    last = "\nERROR: No matching distribution found for torch==2.9.9"
    assert diagnose_log(line.format("2.9.9") + last)[0].code == "wrong-index-resolved"


def test_needles_are_long_enough_and_in_every_match() -> None:
    lines = [line for text in EVERYTHING for line in sample(text)]
    search = Search(lines)
    for pattern in sorted(set(all_patterns())):
        assert min(map(len, needles(pattern))) >= 2, f"the search for {pattern} would be slow"
        compiled = re.compile(pattern, re.IGNORECASE)
        plain = [i for i, line in enumerate(lines) if compiled.search(line.text)]
        assert [index for index, _ in search.find(pattern)] == plain[-32:], pattern


def _mutated(dice: random.Random, text: str) -> str:
    for _ in range(dice.randrange(1, 6)):
        at, to = sorted((dice.randrange(len(text) + 1), dice.randrange(len(text) + 1)))
        middle = dice.choice(
            ["", text[at:to][::-1], text[at:to] * 2, chr(dice.randrange(0x11000)), "\0\r\n{}%s",
             "Traceback (most recent call last):\n", dice.choice(EVERYTHING)[:80]]
        )  # fmt: skip
        text = text[:at] + middle + text[at + dice.randrange(9) :]
    return text


def test_mutated_logs_never_raise() -> None:
    dice = random.Random(2026)
    for _ in range(2000):
        diagnose_log(_mutated(dice, dice.choice(EVERYTHING)[-600:]))
