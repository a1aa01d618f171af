"""Diagnosis of logs: pasted ones, provoked failures, innocent logs, noise and garbage."""

from __future__ import annotations

import html
import io
import json
import os
import random
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.findings import Finding, Level
from provision.doctor import diagnose_evidence, diagnose_log
from provision.doctor.data import data
from provision.doctor.failures import any_of, matching
from provision.doctor.logs import log_rules
from provision.doctor.matcher import Search, literals
from provision.doctor.normalize import normalize_log
from provision.doctor.sampling import Line, sample
from tests.calls import untraced
from tests.doctor.conftest import LOCK_CODES

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
CASES = tomllib.loads((HERE / "logs.toml").read_text(encoding="utf-8"))
LOGS, EVIDENCE = CASES["log"], CASES["evidence"]
DEVICES = tomllib.loads((HERE / "device_errors.toml").read_text(encoding="utf-8"))
LINES = tomllib.loads((HERE / "lines.toml").read_text(encoding="utf-8"))
FAMILIES = tomllib.loads((HERE / "families.toml").read_text(encoding="utf-8"))["family"]
# Real output of provoked failures, with neutral paths.
RUNS = json.loads((HERE / "runs.json").read_text(encoding="utf-8"))
# The log of r59 equals that of r09: its cause, PYTHONPATH, is visible in the environment only.
NOT_IN_THE_LOG = {"r59_setpath_mixed"}
EVERYTHING = [
    *(case["text"] for case in LOGS + EVIDENCE + DEVICES["decoy"]),
    *(case.get("line", case["text"]) for case in DEVICES["error"]),
    *(run["log"] for run in RUNS),
    *(line for lines in LINES.values() for line in lines),
    *(text for family in FAMILIES for text in family["positive"] + family["innocent"]),
]

diagnosed = cache(diagnose_log)  # several tests are about the same texts


@pytest.mark.parametrize(
    "log", LOGS, ids=[f"{i}-{log['code']}" for i, log in enumerate(LOGS)]
)
def test_first_finding_is_the_cause(log: dict[str, object]) -> None:
    found = diagnosed(str(log["text"]))
    codes = [finding.code for finding in found]
    assert codes[:1] == [log["code"]], found
    assert set(log.get("also", ())) <= set(codes)
    if log["code"] == "not-environment":
        assert not any(finding.bad for finding in found), "an innocent log was blamed"


@pytest.mark.parametrize("run", RUNS, ids=[run["id"] for run in RUNS])
def test_provoked_failures(run: dict[str, str]) -> None:
    found = diagnosed(run["log"])
    if run["id"] in NOT_IN_THE_LOG:
        assert found[0].code == "torch-companion-mismatch"
        return
    assert found[0].code == run["code"], found
    if run["code"] == "not-environment":
        assert len(found) == 1


@pytest.mark.parametrize(
    ("code", "bad", "text"),
    [
        (each["code"], "note" not in each, text)
        for each in FAMILIES
        for text in each["positive"]
    ],
)
def test_a_family_is_known(code: str, bad: bool, text: str) -> None:
    found = diagnosed(text)
    assert (found[0].code, found[0].bad) == (code, bad), found


@pytest.mark.parametrize(
    "text", [text for family in FAMILIES for text in family["innocent"]]
)
def test_words_of_a_family_alone_accuse_nothing(text: str) -> None:
    found = diagnosed(text)
    assert not [finding for finding in found if finding.bad]
    if not re.search(
        "Error|Killed|can't open file", text
    ):  # those are the program's own
        assert "not-environment" not in [finding.code for finding in found]


def test_every_code_has_a_rule_and_a_case() -> None:
    in_environments = {
        "driver-unknown",
        "stale-kernel-cache",
        "changed-file",
        "moved-environment",
    }
    in_environments |= {"conda-pip-mix", "editable-gone", "plugin-gone"}
    in_environments |= LOCK_CODES
    ruled = {rule.code for rule in log_rules()} | {"not-recognised"}
    assert ruled == set(data("findings")) - in_environments
    cases = {case["code"] for case in LOGS + EVIDENCE + DEVICES["error"] + FAMILIES}
    assert cases | in_environments >= set(data("findings"))


def test_every_pattern_is_matched_by_a_case() -> None:
    search = Search(
        [line for text in EVERYTHING for line in normalize_log(sample(text))]
    )
    patterns = [
        (rule.code, p)
        for rule in log_rules()
        for p in (*rule.any, *rule.also, *rule.unless)
    ]
    assert [pattern for pattern in patterns if not search.find(pattern[1])] == []


@pytest.mark.parametrize("code", LINES)
def test_each_line_is_matched_by_a_rule_of_its_code(code: str) -> None:
    rules = [rule for rule in log_rules() if rule.code == code]
    patterns = [p for rule in rules for p in (*rule.any, *rule.also, *rule.unless)]
    for line in LINES[code]:
        search = Search(normalize_log(sample(line)))
        assert any(search.find(pattern) for pattern in patterns), line


@pytest.mark.parametrize("case", EVIDENCE, ids=[case["code"] for case in EVIDENCE])
def test_the_evidence_of_a_smoke_check_is_read_more_strictly_than_a_log(
    case: dict[str, str],
) -> None:
    found = diagnose_evidence(case["text"].strip().splitlines())
    assert found is not None
    assert found.code == case["code"]
    assert not any(finding.bad for finding in diagnose_log(case["text"]))


def test_evidence_that_no_rule_knows_has_no_cause() -> None:
    assert diagnose_evidence(["RuntimeError: the moon is full"]) is None
    assert diagnose_evidence([]) is None
    # -999 is the unknown error of SYCL's plugins: alone it tells no cause.
    assert (
        diagnose_evidence(["RuntimeError: Native API failed. Native API returns: -999"])
        is None
    )


def test_the_documentation_has_the_words_of_every_code() -> None:
    page = (HERE.parents[1] / "docs" / "reference" / "findings.md").read_text(
        encoding="utf-8"
    )
    rows = re.findall(r"^\| `(\S+)` \| (\w+) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert rows == [
        (code, text["level"], text["symptom"], text["cause"])
        for code, text in sorted(data("findings").items())
    ]


def test_findings_are_complete() -> None:
    for text in EVERYTHING:
        for finding in diagnosed(text):
            assert finding.evidence[0].startswith("line ")
            for words in (finding.symptom, finding.cause, finding.remedy):
                assert words.strip()
                assert "{" not in words


def test_noise_does_not_hide_the_error() -> None:
    noise = "  Overriding a previously registered kernel for the same operator\n"
    found = diagnose_log(
        noise * 50 + "ImportError: libsycl.so.8: cannot open shared object file\n"
    )
    assert [finding.code for finding in found] == [
        "oneapi-runtime-missing",
        "kernel-override-warning-benign",
    ]
    assert found[1].level is Level.NOTE


def test_a_log_without_failure_gives_nothing() -> None:
    assert diagnose_log("epoch 1 loss 0.3\nepoch 2 loss 0.2\ndone\n") == []
    assert diagnose_log("") == []


def test_evidence_is_the_line() -> None:
    found = diagnose_log("one\ntwo\nKeyError: 'xpu:0'\n")
    assert found[0].evidence == ("line 3: KeyError: 'xpu:0'",)


def test_an_error_that_was_survived_is_not_blamed() -> None:
    handled = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'triton'\n"
    own = 'Traceback (most recent call last):\n  File "a.py", line 1\nIndexError: out of range\n'
    assert diagnose_log(handled + own)[0].code == "not-environment"
    launcher = "Traceback (most recent call last):\ntorch.distributed.elastic.ChildFailedError:\n"
    assert diagnose_log(handled + launcher)[0].code == "triton-missing-or-incompatible"


@pytest.mark.parametrize(
    ("went_on", "bad"),
    [
        ("100%|██████████| 20/20 [00:07<00:00,  2.83it/s]", False),
        ("{'train_runtime': 81.3, 'train_loss': 0.41, 'epoch': 3.0}", False),
        (
            '[GIN] 2025/04/05 - 23:36:41 | 200 |  5.2s |  127.0.0.1 | POST "/api/chat"',
            False,
        ),
        ("No broken requirements found.", False),
        ("===== 210 passed, 52 skipped in 93.10s =====", False),
        ("===== 1 failed, 209 passed in 93.10s =====", True),
        (
            "Loading checkpoint shards: 100%|██████████| 2/2 [00:05<00:00,  2.50s/it]",
            True,
        ),
        ("Running on local URL:  http://127.0.0.1:7860", True),
    ],
)
def test_a_program_that_does_its_work_survived_what_failed_before(
    went_on: str, bad: bool
) -> None:
    handled = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'triton'\n"
    (found, *_) = diagnose_log(f"{handled}{went_on}\n")
    assert found.code == "triton-missing-or-incompatible"
    assert found.bad == bad
    later = diagnose_log(
        f"{handled}{went_on}\nImportError: libsycl.so.8: cannot open shared object\n"
    )
    assert later[0].code == "oneapi-runtime-missing"
    assert later[0].bad


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


TORN = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in <module>\n'
PRESENTED = {
    "sound": TORN + "KeyError: 'labels'",
    "missing": TORN
    + "ImportError: libsycl.so.8: cannot open shared object file: No such file",
    "answer": ">>> torch.xpu.device_count()\n0",
    "version": "ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found",
}
CODES = {
    "sound": "not-environment",
    "missing": "oneapi-runtime-missing",
    "answer": "no-gpu-device-visible",
    "version": "glibcxx-too-old",
}
PREFIXES = [
    "> ",
    "> > ",
    "    ",
    "\t",
    "│ ",
    "      │ ",
    "[rank0]: ",
    "[default1]:",
    "worker-1  | ",
    "#12 0.415 ",
    "(RayWorker pid=12, ip=10.0.0.1) ",
    "(EngineCore_0 pid=9) ERROR 10-10 10:10:10 [core.py:70] ",
    "ERROR 02-23 00:50:05 engine.py:387] ",
    "2026-01-01 12:00:00,123 - ERROR - ",
    "2026-01-01 12:00:00.123 | ERROR    | __main__:main:12 - ",
    "[2026-01-01 12:00:00] ",
    "01/01/2026 12:00:00 - INFO - __main__ - ",
    "2026-01-01T12:00:00.1Z stderr F ",
    "2026-01-01T12:00:00.1234567Z ##[error]",
    "Oct 04 15:02:41 host webui[394]: ",
    "\x1b[31m",
]


@pytest.mark.parametrize("name", PRESENTED)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_of_other_programs_are_ignored(prefix: str, name: str) -> None:
    text = "\n".join(prefix + line for line in PRESENTED[name].split("\n"))
    assert [finding.code for finding in diagnose_log(text)][:1] == [CODES[name]]


def _wrapped(text: str, width: int) -> str:
    lines = [
        line[at : at + width]
        for line in text.split("\n")
        for at in range(0, len(line), width)
    ]
    return "\n".join(lines)


def _boxed(text: str) -> str:
    return "\n".join(f"│ {line:96} │" for line in text.split("\n"))


WAYS: dict[str, Callable[[str], str | bytes]] = {
    "wrapped at 80": lambda text: _wrapped("x" * 90 + "\n" + text, 80),
    "wrapped at 120": lambda text: _wrapped("x" * 130 + "\n" + text, 120),
    "in a box": lambda text: "╭─\n" + _boxed(text) + "\n╰─",
    "as JSON": lambda text: json.dumps({"level": "error", "message": text}),
    "as Docker keeps it": lambda text: "\n".join(
        json.dumps({"log": line + "\n", "stream": "stderr"})
        for line in text.split("\n")
    ),
    "line ends written out": lambda text: (
        text.replace("\n", "\\n") if TORN in text else text
    ),
    "as HTML": lambda text: html.escape(text).replace(" ", "\u00a0"),
    "with curly quotes": lambda text: text.replace("`", "\u2018").replace(
        "'", "\u2019"
    ),
    "after a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("name", PRESENTED)
@pytest.mark.parametrize("way", WAYS)
def test_the_way_of_pasting_is_ignored(way: str, name: str) -> None:
    pasted = WAYS[way](PRESENTED[name])
    found = diagnose_log(io.BytesIO(pasted) if isinstance(pasted, bytes) else pasted)
    assert [finding.code for finding in found][:1] == [CODES[name]]


def test_a_line_as_wide_as_a_console_is_not_always_cut() -> None:
    text = "x" * 80 + "\nModuleNotFoundError: No module named 'sentencepiece'"
    assert diagnose_log(text)[0].code == "missing-package"


def test_a_path_is_no_line_end() -> None:
    line = r"OSError: [WinError 126] Error loading C:\new\torch\lib\c10_xpu.dll"
    assert diagnose_log(line)[0].evidence == (f"line 1: {line}",)
    assert diagnose_log("{" * 100_000) == diagnose_log('{"a": 1}') == []


def test_pip_lists_that_only_offer_newer_versions_mean_an_old_pin() -> None:
    line = (
        "ERROR: Could not find a version that satisfies the requirement torch=={} "
        "(from versions: 2.5.0, 2.6.0)"
    )
    assert diagnose_log(line.format("2.1.2"))[0].code == "python-version-unsupported"
    last = "\nERROR: No matching distribution found for torch==2.9.9"
    assert diagnose_log(line.format("2.9.9") + last)[0].code == "wrong-index-resolved"


@cache
def every_line() -> list[Line]:
    every = (line for text in EVERYTHING for line in normalize_log(sample(text)))
    return [*{line.text: line for line in every}.values()]


@pytest.mark.parametrize(
    "name",
    ["harmless", "last_bar", "ending", "at_work", "ended_well", "warned", "mild"],
)
def test_a_list_is_found_where_it_matches(name: str) -> None:
    lines = every_line()
    found = [i for i, line in enumerate(lines) if any_of(name).search(line.text)]
    assert found
    assert matching(name, lines) == found


def test_the_last_of_many_lines_with_a_literal_is_found() -> None:
    lines = [
        *(Line(i, f"cuda of worker {i % 9}") for i in range(1, 9001)),
        Line(9001, "cuda 700"),
    ]
    assert [index for index, _ in Search(lines).find(r"cuda\b.*\d{3}$")] == [9000]


def test_literals_are_long_enough_and_in_every_match() -> None:
    lines = every_line()
    search = Search(lines)
    patterns = {
        p for rule in log_rules() for p in (*rule.any, *rule.also, *rule.unless)
    }
    for pattern in sorted(patterns):
        assert min(map(len, literals(pattern))) >= 2, (
            f"the search for {pattern} would be slow"
        )
        compiled = re.compile(pattern, re.IGNORECASE)
        slow = [i for i, line in enumerate(lines) if compiled.search(line.text)]
        assert [index for index, _ in search.find(pattern)] == slow[-32:], pattern


def _mutated(dice: random.Random, text: str) -> str:
    for _ in range(dice.randrange(1, 6)):
        at, to = sorted((dice.randrange(len(text) + 1), dice.randrange(len(text) + 1)))
        middle = dice.choice(
            [
                "",
                text[at:to][::-1],
                text[at:to] * 2,
                chr(dice.randrange(0x11000)),
                "\0\r\n{}%s",
                "Traceback (most recent call last):\n",
                dice.choice(EVERYTHING)[:80],
            ]
        )
        text = text[:at] + middle + text[at + dice.randrange(9) :]
    return text


@pytest.mark.attack(
    "a log is damaged: cut, repeated, reversed, with control characters and foreign tracebacks",
    promise="findings with evidence, or none: no traceback",
)
def test_mutated_logs_never_raise(record_property: pytest.RecordProperty) -> None:
    dice, count = random.Random(2026), int(os.environ.get("PROVISION_FUZZ", "500")) * 2
    with untraced():
        for _ in range(count):
            found = diagnose_log(_mutated(dice, dice.choice(EVERYTHING)[-600:]))
            assert all(finding.evidence[0].startswith("line ") for finding in found)
    record_property("seen", f"{count} logs")


# What an environment consists of, in errors of Python's own that its calls can raise.
ENVIRONMENT = [
    "ImportError: {}",
    "ModuleNotFoundError: No module named '{}'",
    "OSError: libx.so.1: {}",
    "RuntimeError: the {} library could not be loaded",
    "ValueError: unsupported {} driver",
    "AssertionError: {} compiler not found",
    "RuntimeError: failed to build {}",
    "FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'",
    "KeyError: 'CUDA_HOME'",
    "ERROR: cannot install {}",
    "error: {}: installation failed",
    "AttributeError: module '{}' has no attribute 'nothing'",
    "TypeError: {}() got an unexpected keyword argument 'device_map'",
]


@pytest.mark.parametrize(
    "file", ["/home/u/train.py", "/v/lib/python3.11/site-packages/x/y.py"]
)
@pytest.mark.parametrize("error", ENVIRONMENT)
def test_no_error_of_an_environment_is_called_the_programs_fault(
    error: str, file: str
) -> None:
    above = f'Traceback (most recent call last):\n  File "{file}", line 3, in start\n'
    found = diagnose_log(above + error.format("quux"))
    assert found, "an all-clear"
    assert "not-environment" not in [finding.code for finding in found]


# Frames as Python, notebooks and their links print them, of a file.
BOOK = "E        Traceback (most recent call last)\n"
FRAMES = [
    'Traceback (most recent call last):\n  File "/w/r.py", line 3\n  File "{}", line 3, in g\n',
    BOOK
    + "<ipython-input-5-eb> in <module>\n----> 1 f()\n\n{} in g(self)\n---> 30     h()\n\n",
    BOOK
    + "[<ipython-input-5>](http://x) in <cell line: 1>()\n\n[{}](http://x) in g(x)\n---> 3 h()\n\n",
    BOOK
    + "Cell In[5], line 1\n----> 1 f()\n\nFile [{}:30](file:///x:30), in g(x)\n---> 3 h()\n\n",
]
PLAIN = [
    "NameError: name 'Quux' is not defined",
    "AttributeError: 'NoneType' object has no attribute 'get'",
    "KeyError: 'quux'",
    "UnboundLocalError: local variable 'quux' referenced before assignment",
    "TypeError: 'NoneType' object is not callable",
]


@pytest.mark.parametrize("error", PLAIN)
@pytest.mark.parametrize("frames", FRAMES)
def test_what_an_installed_package_raises_is_not_called_the_programs_fault(
    frames: str, error: str
) -> None:
    for file in (
        "/v/lib/python3.10/site-packages/quux/a.py",
        "C:\\v\\Lib\\site-packages\\quux.py",
    ):
        assert diagnose_log(frames.format(file) + error)[0].code != "not-environment"
    assert (
        diagnose_log(frames.format("/w/src/quux.py") + error)[0].code
        == "not-environment"
    )


def test_what_is_not_recognised_says_where_what_is_excluded_and_what_decides() -> None:
    (found,) = diagnose_log(
        "PyTorch version: 2.9.1\nTraceback (most recent call last):\n"
        '  File "/home/u/env/lib/python3.11/site-packages/quux/core.py", line 40, in start\n'
        "RuntimeError: engine refused to start: 0x2a\n"
    )
    assert found.code == "not-recognised"
    assert found.evidence == (
        "line 4: RuntimeError: engine refused to start: 0x2a",
        'File "/home/u/env/lib/python3.11/site-packages/quux/core.py", line 40, in start',
        "excluded: a torch that cannot be imported",
    )
    assert "`provision doctor --python /home/u/env`" in found.remedy


@pytest.mark.parametrize("width", [79, 98, 119])
def test_powershells_wrapped_lines_are_joined(width: int) -> None:
    shell = (
        "python : Traceback (most recent call last):\nAt line:1 char:1\n+ python a.py 2>&1\n"
        "    + CategoryInfo          : NotSpecified: (Traceback (most recent call last)::String)"
        " [], RemoteException\n    + FullyQualifiedErrorId : NativeCommandError\n \n"
    )
    text = (
        '  File "C:\\w\\venv\\Lib\\site-packages\\torch\\__init__.py", line 137, in <module>\n'
        "OSError: [WinError 126] The specified module could not be found. Error loading "
        '"C:\\w\\venv\\Lib\\site-packages\\torch\\lib\\c10_xpu.dll" or one of its dependencies.'
    )
    (found, *_) = diagnose_log(shell + _wrapped(text, width))
    assert found.code == "oneapi-runtime-missing"
    assert "c10_xpu.dll" in found.remedy


@pytest.mark.parametrize(
    ("level", "codes"), [("WARNING", []), ("ERROR", ["not-recognised"])]
)
def test_what_a_logger_only_warns_of_is_no_failure(
    level: str, codes: list[str]
) -> None:
    found = diagnose_log(
        f"2026-01-01 12:00:00 {level} could not find the hostfile, using one node\n"
    )
    assert [finding.code for finding in found] == codes


# What programs print that work, one text per line; ⏎ is a line end within a text.
HARMLESS = [
    text.replace("⏎", "\n")
    for text in (HERE / "harmless.txt").read_text(encoding="utf-8").splitlines()
]
RUNS_THAT_WORK = [
    "{}",
    "$ python train.py\n{}\nepoch 1 step 10 loss 0.42\nepoch 2 step 20 loss 0.31\n",
    "{}\nLoading checkpoint shards: 100%|██████████| 2/2 [00:05<00:00,  2.50s/it]\nParis\n",
    "{}\nSuccessfully installed torch-2.9.1\n",
    "{}\nRunning on local URL:  http://127.0.0.1:7860\n",
]


def _accused(text: str) -> list[Finding]:
    found = diagnose_log(text)
    return [
        each
        for each in found
        if each.bad or each.code in {"not-recognised", "not-environment"}
    ]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_line_is_no_failure(text: str) -> None:
    assert [_accused(run.format(text)) for run in RUNS_THAT_WORK] == [[]] * len(
        RUNS_THAT_WORK
    )


def test_harmless_lines_together_are_no_failure() -> None:
    dice = random.Random(2026)
    for _ in range(300):
        company = "\n".join(dice.sample(HARMLESS, 6))
        text = dice.choice(RUNS_THAT_WORK).format(company)
        assert _accused(text) == [], text


FAILING = [
    (row["code"], text)
    for row in FAMILIES
    if "note" not in row
    for text in row["positive"]
]


@pytest.mark.parametrize("noise", range(3))
def test_harmless_lines_that_no_rule_knows_hide_no_failure(noise: int) -> None:
    dice = random.Random(noise)
    # Rules take the names of packages and systems as hints of where a failure is.
    hints = re.compile(
        "intel_|libaio|WSL|No (module named|CUDA runtime)|bitsandbytes|/home/|newer"
    )
    unknown = [
        text for text in HARMLESS if not (diagnose_log(text) or hints.search(text))
    ]
    for code, text in dice.sample(FAILING, 100):
        above = "\n".join(dice.sample(unknown, 3))
        codes = [
            each.code for each in diagnose_log(f"{above}\nstarting\n{text}") if each.bad
        ]
        assert codes[:1] == [code], f"{above}\n---\n{text}"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_change_no_familys_finding(prefix: str) -> None:
    dice = random.Random(prefix)
    for code, text in dice.sample(FAILING, 25):
        lines = "\n".join(prefix + line for line in text.split("\n"))
        found = [each.code for each in diagnose_log(lines)]
        assert found[:1] == [code], lines
