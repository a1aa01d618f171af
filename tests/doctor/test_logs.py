"""Diagnosis of logs: an example for each rule, provoked failures, innocents, noise and garbage."""

from __future__ import annotations

import io
import json
import os
import random
import re
import time
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.findings import Finding, Level
from provision.doctor import diagnose_evidence, diagnose_log
from provision.doctor import logs as doctor_logs
from provision.doctor.data import data
from provision.doctor.logs import LAYERS, findings_of, log_rules
from provision.doctor.machine import _ELSEWHERE, ACCELERATORS, SYSTEMS, Machine
from provision.doctor.matcher import Search, literals
from provision.doctor.reading import read_log
from provision.doctor.sampling import Line
from tests.calls import untraced
from tests.doctor.conftest import LOCK_CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HERE = Path(__file__).parent
FOLDER = Path(doctor_logs.__file__).parent / "log_rules"
CASES = tomllib.loads((HERE / "logs.toml").read_text(encoding="utf-8"))
MISSION = tomllib.loads((HERE / "mission.toml").read_text(encoding="utf-8"))
# Real output of provoked failures, with neutral paths.
RUNS = json.loads((HERE / "runs.json").read_text(encoding="utf-8"))
EXAMPLES = [case["text"] for case in CASES["log"]]
FAILING = [(case["code"], case["text"]) for case in CASES["log"] if "note" not in case]
EVERYTHING = [
    *EXAMPLES,
    *(case["text"] for case in CASES["innocent"]),
    *(case["line"] for case in MISSION["failure"]),
    *(form for case in MISSION["failure"] for form in case.get("forms", ())),
    *(run["log"] for run in RUNS),
]
# What programs print that work, one text per line; ⏎ is a line end within a text.
HARMLESS = (HERE / "harmless.txt").read_text(encoding="utf-8").splitlines()
MISSING = "ImportError: libsycl.so.8: cannot open shared object file: No such file\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "{}", line 3, in start\n'


FIRED = set[int]()  # the rules that a text of `diagnosed` matched
_matches = doctor_logs._matches


def _noted(*args: object, **options: bool) -> list[doctor_logs.Match]:
    result = _matches(*args, **options)  # type: ignore[arg-type]
    FIRED.update(id(match.rule) for match in result)
    return result


@cache
def diagnosed(text: str, *, smoke: bool = False) -> list[Finding]:
    """Diagnose a text, once for all tests that are about it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor_logs, "_matches", _noted)
        return findings_of(read_log(text), smoke=smoke)


def codes_of(text: str | bytes) -> list[str]:
    source = io.BytesIO(text) if isinstance(text, bytes) else text
    return [finding.code for finding in diagnose_log(source)]


def accused(text: str) -> list[Finding]:
    verdicts = {"not-recognised", "not-environment"}
    return [f for f in diagnose_log(text) if f.bad or f.code in verdicts]


# --- rules and their examples -----------------------------------------------------------


def test_the_first_finding_of_an_example_is_its_cause() -> None:
    wrong = []
    for case in CASES["log"]:
        (finding, *_) = diagnosed(case["text"]) or [None]
        level = "note" not in case
        if not finding or (finding.code, finding.bad) != (case["code"], level):
            wrong.append((case["code"], finding, case["text"]))
    assert wrong == []


def test_an_innocent_program_is_not_told_that_its_environment_is_at_fault() -> None:
    for case in CASES["innocent"]:
        findings = diagnosed(case["text"])
        assert findings[0].code == "not-environment", case["text"]
        assert not any(finding.bad for finding in findings), case["text"]


def test_provoked_failures() -> None:
    for run in RUNS:
        assert codes_of(run["log"])[0] == run["code"], run["id"]


def test_every_rule_fires_in_an_example() -> None:
    for text in EVERYTHING:
        diagnosed(text)
    for text in [case["text"] for case in CASES["evidence"]]:
        diagnosed(text, smoke=True)
    for failure in MISSION["failure"]:
        diagnosed(failure.get("exception", "") + failure["line"], smoke=True)
    idle = [(rule.code, rule.any[0]) for rule in log_rules() if id(rule) not in FIRED]
    assert idle == []


def test_every_code_has_a_rule() -> None:
    of_environments = {"driver-unknown", "known-wrong-numbers", *LOCK_CODES}
    ruled = {rule.code for rule in log_rules()} | {"not-recognised"}
    assert set(data("findings")) - of_environments <= ruled
    assert ruled <= set(data("findings"))


def test_every_file_of_rules_is_a_layer_and_no_rule_is_longer_than_a_screen() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(LAYERS)
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.toml")]
    assert sum(len(text.splitlines()) for text in texts) <= 4000
    for text in texts:
        for rule in text.split("[[rule]]")[1:]:
            assert len(rule.splitlines()) <= 30, rule


def test_the_evidence_of_a_smoke_check_is_read_more_strictly_than_a_log() -> None:
    for case in CASES["evidence"]:
        finding = diagnose_evidence(case["text"].strip().splitlines())
        assert finding is not None, case
        assert finding.code == case["code"]
    unknown_to_all = "RuntimeError: Native API failed. Native API returns: -5"
    for text in ("RuntimeError: the moon is full", unknown_to_all[:12], ""):
        assert diagnose_evidence([text]) is None


# --- remedies and the machine that a log is of ------------------------------------------

# What a remedy must not say to somebody with another system, or another accelerator.
FOREIGN = {
    "windows": r"apt-get|\bsudo\b|setvars\.sh|LD_LIBRARY_PATH|/dev/dri|systemctl|dmesg",
    "linux": r"winget|triton-windows|\bsetx\b|Device Manager|\.bat\b",
    "macos": r"apt-get|winget|triton-windows|systemctl|/dev/dri",
    "intel": r"nvidia-smi|docs\.nvidia|--gpus|triton-windows|nvidia-ctk|/dev/kfd",
    "nvidia": r"xpu-smi|setvars|intel-opencl|/dev/kfd|ONEAPI_DEVICE_SELECTOR",
    "amd": r"nvidia-smi|docs\.nvidia|triton-windows|xpu-smi|setvars",
}
SHOWN = {
    "windows": r"C:\Users\me\app\run.py",
    "linux": '  File "/home/me/app/run.py"',
    "macos": '  File "/Users/me/app/run.py"',
    "intel": "Intel(R) Arc(TM) A770 Graphics",
    "nvidia": "NVIDIA GeForce RTX 3090",
    "amd": "AMD Radeon RX 7900 XTX gfx1100",
}


def machine_of(*shown: str) -> Machine:
    lines = [Line(number, text) for number, text in enumerate(shown, 1)]
    return Machine(Search(lines))


def machines() -> Iterator[tuple[Machine, tuple[str, str]]]:
    for system in SYSTEMS:
        for accelerator in ACCELERATORS:
            shown = machine_of(SHOWN[system], SHOWN[accelerator])
            yield shown, (system, accelerator)


def test_the_system_is_told_by_paths_and_prompts() -> None:
    at_lib = '  File "{}/lib/python3.11/site-packages/q.py", line 1, in f'
    for shown in (
        at_lib.format("/data/v"),
        at_lib.format("/lus/flare/venv"),
        "root@9f2c1a:/workspace# python a.py",
        "(v) me@box:~/work$ python a.py",
    ):
        assert machine_of(shown).only(SYSTEMS) == "linux", shown
    for shown in (
        at_lib.format("/Library/Frameworks/Python.framework/Versions/3.11"),
        at_lib.format("/Users/me/v"),
        at_lib.format("/opt/homebrew"),
        "me@DESKTOP-AB12CD3:~$ python a.py",
        "me@box:/mnt/c/work$ python a.py",
        "see me@box.org: it costs 5 $ a month",
    ):
        assert machine_of(shown).only(SYSTEMS) != "linux", shown


def test_the_remedy_is_for_what_the_log_shows() -> None:
    told = [case for case in CASES["log"] if "says" in case]
    for case in told:
        remedy = diagnosed(case["text"])[0].remedy
        assert case["says"] in remedy, case
        assert case["unsaid"] not in remedy, case
    assert told


CONTEXTS = data("machine")["context"]
REMEDIES = {rule.remedy for rule in log_rules()}
REMEDIES |= {row["remedy"] for row in CONTEXTS}
IN_WSL = machine_of(SHOWN["linux"], SHOWN["nvidia"], "5.15.90-microsoft-standard-WSL2")


def test_a_remedy_fits_every_machine_that_its_rule_can_meet() -> None:
    for machine, names in machines():
        for remedy in REMEDIES:
            text = machine.fitting(machine.with_commands(remedy))
            assert text
            # No sentence that was left out ended within parentheses, or within a command.
            assert text.count("(") == text.count(")"), text
            assert text.count("`") % 2 == 0, text
            for name in names:
                assert not re.search(FOREIGN[name], text), (name, text)


def test_each_sentence_of_a_remedy_helps_on_some_machine() -> None:
    """One that names the commands of two kinds of machine would be left out on both."""
    known = [*(machine for machine, _ in machines()), IN_WSL]
    for remedy in REMEDIES:
        for sentence in re.split(r"(?<=[.;]) +(?=\S)", remedy):
            kept = [machine.fitting(sentence) != _ELSEWHERE for machine in known]
            assert any(kept), sentence


def test_only_a_stack_for_another_machine_is_answered_with_another_target() -> None:
    elsewhere = set()
    for machine, _ in machines():
        for code, words in data("findings").items():
            if machine.fitting(words["remedy"]) == _ELSEWHERE:
                elsewhere.add(code)
    foreign = {"igpu-selected-instead-of-dgpu", "selector-syntax", "wsl-no-gpu"}
    assert elsewhere == foreign
    for row in CONTEXTS:
        if row["when"] == ["wsl"]:
            assert IN_WSL.fitting(row["remedy"]) == row["remedy"]


@pytest.mark.parametrize("name", ["nvidia", "intel", "amd"])
def test_memory_that_another_program_holds_has_the_remedy_of_its_cause(
    name: str,
) -> None:
    error = "AcceleratorError: CUDA error: out of memory"
    finding = diagnose_evidence([error, SHOWN[name]])
    assert finding is not None
    assert finding.code == "out-of-memory"
    assert "Another program holds" in finding.cause
    assert "End the other programs" in finding.remedy
    assert ("nvidia-smi" in finding.remedy) == (name == "nvidia")
    assert "provision detect" not in finding.remedy


def test_findings_are_complete() -> None:
    for text in EVERYTHING:
        for finding in diagnosed(text):
            assert finding.evidence[0].startswith("line ")
            for words in (finding.symptom, finding.cause, finding.remedy):
                assert words.strip()
                assert "{" not in words, finding


# --- where a failure is, and what was survived ------------------------------------------


def test_a_log_without_failure_gives_nothing() -> None:
    assert diagnose_log("epoch 1 loss 0.3\nepoch 2 loss 0.2\ndone\n") == []
    assert diagnose_log("") == []


def test_noise_does_not_hide_the_error_and_evidence_is_the_line() -> None:
    noise = "  Overriding a previously registered kernel for the same operator\n"
    (error, note) = diagnose_log(noise * 50 + MISSING)
    assert error.code == "oneapi-runtime-missing"
    assert error.evidence == (f"line 51: {MISSING.strip()}",)
    assert (note.code, note.level) == ("kernel-override-warning-benign", Level.NOTE)


def test_what_an_error_explains_is_not_explained_otherwise() -> None:
    broken = "torch._inductor.exc.InductorError: "
    found = diagnose_log(f"{broken}InvalidCxxCompiler: No working C++ compiler found")
    assert [finding.code for finding in found] == ["compiler-missing"]
    assert "triton-missing-or-incompatible" in codes_of(f"{broken}x")


def test_a_message_below_the_name_of_its_exception_is_quoted_with_it() -> None:
    (finding,) = diagnose_log("RuntimeError:\n        CUDA Setup failed\n")
    assert finding.evidence == ("line 1: RuntimeError: CUDA Setup failed",)
    (finding,) = diagnose_log("RuntimeError:")
    assert finding.evidence == ("line 1: RuntimeError:",)


def test_an_error_that_was_survived_is_not_blamed() -> None:
    handled = f"Traceback (most recent call last):\n{MISSING}"
    own = TRACEBACK.format("a.py") + "IndexError: out of range\n"
    assert codes_of(handled + own)[0] == "not-environment"
    launcher = "Traceback (most recent call last):\ntorch.distributed.elastic.ChildFailedError:\n"
    assert codes_of(handled + launcher)[0] == "oneapi-runtime-missing"
    chain = "\nThe above exception was the direct cause of the following exception:\n\n"
    last = "Traceback (most recent call last):\nRuntimeError: no model\n"
    assert codes_of(handled + chain + last)[0] == "oneapi-runtime-missing"


@pytest.mark.parametrize(
    ("went_on", "bad"),
    [
        ("100%|██████████| 20/20 [00:07<00:00,  2.83it/s]", False),
        ("{'train_runtime': 81.3, 'train_loss': 0.41, 'epoch': 3.0}", False),
        ("===== 210 passed, 52 skipped in 93.10s =====", False),
        ("INFO: epoch 1 loss 0.4\nINFO: exit code 0", False),
        # The standard output of a program that failed, which was in a buffer.
        ("epoch 1 loss 0.4\nepoch 2 loss 0.3", True),
        ("epoch 1 loss 0.4\ncheckpoint saved\nepoch 2 loss 0.3", True),
        ("step 7 loss 0.4\ntorch.distributed.elastic.ChildFailedError:", True),
        ("Successfully installed quux-1.0", True),
        ("===== 1 failed, 209 passed in 93.10s =====", True),
        ("Loading checkpoint shards: 100%|██████████| 2/2 [00:05<00:00]", True),
        ("Running on local URL:  http://127.0.0.1:7860", True),
    ],
)
def test_a_program_that_does_its_work_survived_what_failed_before(
    went_on: str, bad: bool
) -> None:
    handled = f"Traceback (most recent call last):\n{MISSING}"
    (finding, *_) = diagnose_log(f"{handled}{went_on}\n")
    assert (finding.code, finding.bad) == ("oneapi-runtime-missing", bad)


def test_harmless_lines_are_no_failure_alone_and_together() -> None:
    dice = random.Random(2026)
    runs = ["{}", "$ python a.py\n{}\nepoch 1 step 10 loss 0.42\nepoch 2 loss 0.31\n"]
    texts = [line.replace("⏎", "\n") for line in HARMLESS]
    texts += ["\n".join(dice.sample(texts, 6)) for _ in range(20)]
    for text in texts:
        for run in runs:
            assert accused(run.format(text)) == [], text


def test_harmless_lines_hide_no_failure() -> None:
    dice = random.Random(2026)
    # Rules take names of packages, devices and folders as hints of where a failure is.
    hints = re.compile(r"(?i:cuda|intel|xpu|\bgpu|wsl|no module named|bitsandbytes|/)")
    quiet = [t for t in HARMLESS if not (diagnose_log(t) or hints.search(t))]
    for code, text in dice.sample(FAILING, 60):
        above = "\n".join(dice.sample(quiet, 3))
        found = [f.code for f in diagnose_log(f"{above}\nstarting\n{text}") if f.bad]
        assert found[:1] == [code], f"{above}\n---\n{text}"


def test_what_a_logger_only_warns_of_is_no_failure() -> None:
    line = "2026-01-01 12:00:00 {} could not find the hostfile, using one node\n"
    assert codes_of(line.format("WARNING")) == []
    assert codes_of(line.format("ERROR")) == ["not-recognised"]


# --- whose fault it is ------------------------------------------------------------------

# What an environment consists of, in errors of Python's own that its calls can raise.
OF_ENVIRONMENTS = [
    "ImportError: {}",
    "ModuleNotFoundError: No module named '{}'",
    "OSError: libx.so.1: {}",
    "RuntimeError: the {} library could not be loaded",
    "AssertionError: {} compiler not found",
    "RuntimeError: failed to build {}",
    "ERROR: cannot install {}",
]


def test_no_error_of_an_environment_is_called_the_programs_fault() -> None:
    for error in OF_ENVIRONMENTS:
        text = TRACEBACK.format("/v/lib/python3.11/site-packages/x/y.py")
        codes = codes_of(text + error.format("quux"))
        assert codes, error
        assert "not-environment" not in codes, error


def test_what_an_installed_package_raises_is_not_called_the_programs_fault() -> None:
    plain = ["KeyError: 'quux'", "TypeError: 'NoneType' object is not callable"]
    cells = "Cell In[5], line 1\n----> 1 f()\n\nFile {}:30, in g(x)\n---> 3 h()\n\n"
    for error in plain:
        for frames in (TRACEBACK, f"E   Traceback (most recent call last)\n{cells}"):
            for file in (
                "/v/lib/python3.10/site-packages/q/a.py",
                r"C:\v\Lib\site-packages\q.py",
            ):
                assert codes_of(frames.format(file) + error)[0] != "not-environment"
            own = codes_of(frames.format("/w/src/quux.py") + error)
            assert own[0] == "not-environment"


def test_what_is_not_recognised_quotes_what_decides_and_offers_the_report() -> None:
    (finding,) = diagnose_log(
        "PyTorch version: 2.9.1\n"
        + TRACEBACK.format("/home/u/env/lib/python3.11/site-packages/quux/core.py")
        + "RuntimeError: engine refused to start: 0x2a\n"
    )
    assert finding.code == "not-recognised"
    assert finding.evidence == (
        "line 4: RuntimeError: engine refused to start: 0x2a",
        'File "/home/u/env/lib/python3.11/site-packages/quux/core.py", line 3, in start',
    )
    assert "--report" in finding.remedy.partition("`provision doctor --python")[0]


# Calls of packages in the environments of targets, as Python and IPython print them.
OF_TARGETS = {
    "cpu-linux": TRACEBACK.format(
        "/w/.envs/cpu-linux/79f30a889753b18c/lib/python3.11/site-packages/tqdm/__init__.py"
    ),
    "arc-linux": TRACEBACK.format(
        ".envs/arc-linux/current/lib/python3.12/site-packages/q.py"
    ),
    "cuda-linux": TRACEBACK.format("/w/.envs/cuda-linux/1f/bin/torchrun"),
    "arc-windows": TRACEBACK.format(
        r"C:\My work\.envs\arc-windows\1f\Lib\site-packages\q.py"
    ),
    "max-linux": "E   Traceback (most recent call last)\nCell In[5], line 1\n----> 1 f()\n\n"
    "File ~/w/.envs/max-linux/1f/lib/python3.11/site-packages/q.py:30, in g(x)\n---> 3 h()\n\n",
}

PYTEST = (
    "{}/q.py:40: in <module>\n    broken\nE   NameError: name 'broken' is not defined\n"
)
NAMELESS = "ImportError: cannot import name 'f' from 'q' ({}/q/__init__.py)\n"


def test_an_unknown_error_that_names_a_file_of_a_target_leads_to_its_files_first() -> (
    None
):
    imports = "tests/test_a.py:1: in <module>\n    import q\n"
    for folder in ("/w/.envs/cpu-linux/1f/lib", ".envs/cpu-linux/1f/lib"):
        for text in (
            imports + PYTEST.format(folder),
            TRACEBACK.format("/w/train.py") + NAMELESS.format(folder),
        ):
            (finding, *_) = diagnose_log(text)
            assert finding.code == "not-recognised", text
            assert finding.remedy.startswith("Run `provision verify cpu-linux --deep`")


def test_an_unknown_error_in_a_targets_environment_leads_to_its_files_first() -> None:
    errors = [
        "NameError: name 'broken' is not defined",
        "SyntaxError: invalid syntax",
        "KeyError: 'quux'",
        "quux.core.OddError: 0x2a",
    ]
    for target, frame in OF_TARGETS.items():
        for error in errors:
            (finding, *_) = diagnose_log(frame + error)
            assert finding.code == "not-recognised", frame
            assert finding.remedy.startswith(f"Run `provision verify {target} --deep`")
            assert f"`provision doctor --target {target}`" in finding.remedy
            assert "--log FILE --report" in finding.remedy
            assert "--python" not in finding.remedy


def test_an_unknown_error_elsewhere_leads_to_no_target() -> None:
    installed = "/w/.envs/cpu-linux/1f/lib/python3.11/site-packages/q.py"
    last_call = '  File "/w/venv/lib/python3.11/site-packages/q.py", line 1, in f\n'
    for above in (
        TRACEBACK.format("/w/venv/lib/python3.11/site-packages/tqdm/__init__.py"),
        TRACEBACK.format("/w/my.envs/cpu-linux/1f/lib/site-packages/q.py"),
        TRACEBACK.format(installed) + last_call,
    ):
        (finding,) = diagnose_log(f"{above}NameError: name 'broken' is not defined")
        assert finding.code == "not-recognised"
        assert "provision verify" not in finding.remedy
    (own,) = diagnose_log(TRACEBACK.format("/w/.envs/notes.py") + "KeyError: 'quux'")
    assert own.code == "not-environment"


# --- forms in which logs are pasted -----------------------------------------------------

TORN = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in <module>\n'
PRESENTED = {
    "not-environment": TORN + "KeyError: 'labels'",
    "oneapi-runtime-missing": TORN + MISSING.strip(),
    "glibcxx-too-old": "ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found",
}
PREFIXES = [
    "> ",
    "> > ",
    "    ",
    "│ ",
    "[rank0]: ",
    "worker-1  | ",
    "#12 0.415 ",
    "(RayWorker pid=12, ip=10.0.0.1) ",
    "(EngineCore_0 pid=9) ERROR 10-10 10:10:10 [core.py:70] ",
    "2026-01-01 12:00:00,123 - ERROR - ",
    "[2026-01-01 12:00:00] ",
    "2026-01-01T12:00:00.1Z stderr F ",
    "2026-01-01T12:00:00.1234567Z ##[error]",
    "Oct 04 15:02:41 host webui[394]: ",
    "\x1b[31m",
]


def _boxed(text: str) -> str:
    rows = "\n".join(f"│ {line:96} │" for line in text.split("\n"))
    return f"╭─\n{rows}\n╰─"


def _docker(text: str) -> str:
    rows = [{"log": f"{line}\n", "stream": "stderr"} for line in text.split("\n")]
    return "\n".join(json.dumps(row) for row in rows)


WAYS: dict[str, Callable[[str], str | bytes]] = {
    "in a box": _boxed,
    "as JSON": lambda text: json.dumps({"level": "error", "message": text}),
    "as Docker keeps it": _docker,
    "after a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
}


def test_prefixes_of_other_programs_are_ignored() -> None:
    for prefix in PREFIXES:
        for code, text in PRESENTED.items():
            lines = "\n".join(prefix + line for line in text.split("\n"))
            assert codes_of(lines)[:1] == [code], lines


def test_the_way_of_pasting_is_ignored() -> None:
    for way, pasted in WAYS.items():
        for code, text in PRESENTED.items():
            assert codes_of(pasted(text))[:1] == [code], way


# --- speed and garbage ------------------------------------------------------------------


def _patterns() -> set[str]:
    rules = log_rules()
    return {p for rule in rules for p in (*rule.any, *rule.also, *rule.unless)}


def _naive(pattern: str, lines: Sequence[Line]) -> list[int]:
    search = re.compile(pattern, re.IGNORECASE).search
    return [at for at, line in enumerate(lines) if search(line.text)][-32:]


def test_every_pattern_is_searched_by_a_literal_and_finds_what_it_matches() -> None:
    lines = [line for text in EVERYTHING[::3] for line in read_log(text).lines]
    search = Search(lines)
    for pattern in sorted(_patterns()):
        assert min(map(len, literals(pattern))) >= 2, f"a slow search: {pattern}"
        assert [at for at, _ in search.find(pattern)] == _naive(pattern, lines), pattern


@cache
def _long_lines() -> list[str]:
    words = "error cuda libsycl.so.8 torch device /home/u/x " * 70
    tracebacks = "Traceback (most recent call last):\n" * 3000
    lines = [words[:3000], "RuntimeError: " + words[:2986], "'" * 3000, "\\" * 3000]
    devices = "/dev/nvidia/dev/dri/dev/kfd" * 110 + " Permission, Invalid"
    return [*lines, tracebacks, devices]


def test_a_line_of_3000_signs_takes_no_time() -> None:
    diagnose_log(MISSING)  # compiles the patterns
    for line in _long_lines():
        begun = time.process_time()
        diagnose_log(f"{TORN}{line}\n")
        assert time.process_time() - begun < 1.0, line[:60]


def _mutated(dice: random.Random, text: str) -> str:
    for _ in range(dice.randrange(1, 6)):
        at, to = sorted((dice.randrange(len(text) + 1), dice.randrange(len(text) + 1)))
        inserted = [
            "",
            text[at:to][::-1],
            text[at:to] * 2,
            chr(dice.randrange(0x11000)),
            "\0\r\n{}%s",
            "Traceback (most recent call last):\n",
            dice.choice(EVERYTHING)[:80],
        ]
        text = text[:at] + dice.choice(inserted) + text[at + dice.randrange(9) :]
    return text


@pytest.mark.attack(
    "a log is damaged: cut, repeated, reversed, with control characters and foreign tracebacks",
    promise="findings with evidence, or none: no traceback",
)
def test_mutated_logs_never_raise(record_property: pytest.RecordProperty) -> None:
    dice, count = random.Random(2026), int(os.environ.get("PROVISION_FUZZ", "300"))
    with untraced():
        for _ in range(count):
            findings = diagnose_log(_mutated(dice, dice.choice(EVERYTHING)[-600:]))
            assert all(finding.evidence[0].startswith("line ") for finding in findings)
    record_property("seen", f"{count} logs")
