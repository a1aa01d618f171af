"""The verb: it keeps reports, compares them, and survives a suite that does not."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from provision.cli import main
from provision.commands.check import check
from provision.commands.expectation import expectation, fallback_of_caller
from provision.commands.subject import from_generation, from_interpreter
from provision.commands.suite import SmokeRequest
from provision.core.errors import Exit, ToolError, UsageError
from provision.core.platforms import ACCELERATORS
from provision.core.process import run
from provision.environment.manifest import current_generation, mark_proof
from provision.host.model import Driver, Gpu, Host
from provision.report.history import history, last_report
from provision.report.model import read_report
from provision.spec.reader import load_target
from provision.ui.html_report import render_page
from smoke.engine.expect import read as read_expectation
from tests.small import CATALOG, SUITE, TARGET

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.report.model import Report
    from tests.lab import Lab

pytestmark = pytest.mark.machine


def call(lab: Lab, *words: str) -> int:
    root = str(lab.project.root)
    return main.main(["smoke", TARGET, "--project", root, *words])


def result(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the result in the document that a verb printed."""
    document = json.loads(capsys.readouterr().out)
    return document["result"]


def proof(lab: Lab, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    root = str(lab.project.root)
    main.main(["targets", "--json", "--project", root])
    (row,) = result(capsys)["rows"]
    return str(row["proof"])


def reports(lab: Lab) -> int:
    """Count the reports that are kept."""
    return len(history(lab.project, TARGET))


def newest(lab: Lab) -> Report:
    """Return the report of the last run, whatever it ran."""
    path = history(lab.project, TARGET)[-1]
    return read_report(path)


def installed(lab: Lab, file: str) -> Path:
    """Return a file of the environment in use."""
    generation = (lab.home / "current").resolve()
    return next(generation.rglob(file))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    path.write_text(text.replace(old, new))


def write_suite(lab: Lab, text: str) -> None:
    program = lab.project.smoke / "run.py"
    program.write_text(text)


def test_a_second_run_is_compared_with_the_first(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    built = lab.build()
    assert built.report is not None
    assert built.generation is not None
    assert built.report.stack == {"kernel": "6.1"}
    record = built.generation.record
    assert built.report.lock == record.lock
    (path,) = history(lab.project, TARGET)
    replace(path, "2026-01-01", "2025-01-01")
    assert call(lab) == Exit.OK
    words = capsys.readouterr().out
    assert "kernel: 6.1 ->" in words  # the lab's kernel is not this machine's
    since = "the report of the build, 2025-01-01T00:00:00Z"
    assert f"compared with {since}: 1 check as good as then" in words
    assert call(lab) == Exit.OK
    # The suite of the lab says the same time of each run.
    again = "compared with the report of 2026-01-01T00:00:00Z: 1 check as good as then"
    assert again in capsys.readouterr().out


def test_a_check_that_broke_is_a_regression_and_withdraws_the_proof(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = installed(ready, "alpha.py").with_name("broken.py")
    broken.touch()
    assert call(ready) == Exit.FINDINGS
    assert "tiny.check worked and fails now" in capsys.readouterr().out
    assert proof(ready, capsys).startswith("unproven")
    broken.unlink()
    assert call(ready, "--fail-if-slower") == Exit.OK  # no news but of a speed counts
    assert proof(ready, capsys) == "proven (1 of 1)"


def test_it_runs_only_if_a_driver_changed_on_the_device(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    # The ready's kernel is not this machine's.
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert reports(ready) == 2
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert reports(ready) == 2
    out, err = capsys.readouterr()
    assert "all passed then" in out
    assert err.count("the checks run: kernel: 6.1 -> ") == 1
    # A verdict of another device spares no run.
    for path in history(ready.project, TARGET):
        replace(path, '"asked": "0"', '"asked": "1"')
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert reports(ready) == 3
    assert "the checks run: no quick run is known here" in capsys.readouterr().err


def test_it_runs_where_the_build_left_the_checks_out(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    seen = reports(ready)
    current = current_generation(ready.home)
    assert current
    mark_proof(current, "skipped", "")
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert "not proven: its build left the checks out" in capsys.readouterr().err
    assert reports(ready) == seen + 1
    assert proof(ready, capsys) == "proven (1 of 1)"


def test_health_is_not_asked_again_for_the_checks_that_a_build_left_out(
    ready: Lab,
) -> None:
    current = current_generation(ready.home)
    assert current
    mark_proof(current, "skipped", "")
    assert call(ready, "--health") == Exit.OK
    seen = reports(ready)
    assert call(ready, "--health", "--if-driver-changed") == Exit.OK
    assert reports(ready) == seen, "it ran, though no run of it makes a proof"


def test_an_edited_file_changes_no_verdict_and_is_found_by_verify(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    installed(ready, "beta.py").write_text("pass\n")
    root = str(ready.project.root)
    verify = ["verify", TARGET, "--deep", "--project", root]
    assert main.main(verify) == Exit.FINDINGS
    assert "beta.py" in capsys.readouterr().out
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert "all passed then" in capsys.readouterr().out
    assert proof(ready, capsys) == "proven (1 of 1)"


def test_where_nothing_runs_it_still_says_that_the_lock_changed(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    assert "provision build" not in capsys.readouterr().err
    newer = ready.wheel("alpha", "2.0")
    ready.relock(newer, ready.wheels[1])
    assert call(ready, "--if-driver-changed") == Exit.OK
    out, err = capsys.readouterr()
    assert "all passed then" in out
    path = f"lockfiles/{TARGET}/requirements.txt"
    note = f"! {TARGET}: the environment in use is not that of {path}; "
    unwrapped = " ".join(err.split())
    assert unwrapped.count(note) == 1
    assert f"provision build {TARGET}`" in err


def test_it_also_runs_once_the_last_report_is_too_old(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--if-driver-changed", "--max-age", "1d")
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    # The suite of the lab dates its reports back.
    assert call(ready, *words) == Exit.OK
    assert reports(ready) == 3
    assert call(ready, *words) == Exit.OK
    assert reports(ready) == 4
    said = capsys.readouterr().err
    assert said.count("the checks run: the last run is older than --max-age") == 2
    path = history(ready.project, TARGET)[-1]
    now = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    replace(path, "2026-01-01T00:00:00Z", now)
    assert call(ready, *words) == Exit.OK
    assert reports(ready) == 4
    assert call(ready, "--max-age", "1d") == Exit.USAGE


def test_the_quick_checks_of_a_build_are_no_verdict_of_the_full_suite(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    capsys.readouterr()
    assert call(ready, "--full", "--if-driver-changed") == Exit.OK
    assert reports(ready) == 3
    assert call(ready, "--full", "--if-driver-changed") == Exit.OK
    assert reports(ready) == 3
    assert "all passed then" in capsys.readouterr().out
    # All checks are also the quick ones.
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert reports(ready) == 3


# A suite that fails with an error text of oneDNN, as smoke/ reports an exception.
RAISES = """
import json, sys
finding = {"code": "op-fails", "level": "error", "cause": "not known", "remedy": "see above",
           "symptom": "RuntimeError: could not make an engine with allocator",
           "evidence": ["RuntimeError: could not make an engine with allocator"]}
check = {"id": "device.ready", "outcome": "failed", "title": "t", "stands_for": "s",
         "seconds": 0.1, "numbers": {}, "finding": finding}
json.dump({"schema": 2, "suite": "quick", "target": "tiny", "python": "3", "torch": None,
           "device": {}, "started": "2026-01-01T00:00:00Z", "seconds": 0.1, "checks": [check]},
          open(sys.argv[2], "w"))
sys.exit(1)
"""


def test_an_error_that_the_doctor_knows_is_reported_with_its_cause(
    ready: Lab, tmp_path: Path
) -> None:
    write_suite(ready, RAISES)
    junit = tmp_path / "junit.xml"
    assert call(ready, "--junit", str(junit)) == Exit.FINDINGS
    report = last_report(ready.project, TARGET)
    assert report is not None
    finding = report.checks[0].finding
    assert finding is not None
    assert finding.code == "driver-too-old"
    assert "oneDNN" in finding.cause
    assert finding.symptom == "RuntimeError: could not make an engine with allocator"
    failure = ET.parse(junit).getroot().find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "driver-too-old"
    assert failure.text is not None
    assert finding.cause in failure.text


def test_another_environment_is_checked_as_it_is_and_keeps_no_report(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(sys.prefix)
    programs = folder / "bin"
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    assert call(lab, "--against", "python", "--json") == Exit.OK
    report = result(capsys)["report"]
    assert report["checks"]
    assert reports(lab) == 0
    out = note_expectation(lab)
    assert call(lab, "--against", "python") == Exit.OK
    _, expected = asked(out)
    assert expected["foreign"] is True
    for named in (folder, programs, programs / "python"):
        subject = from_interpreter(named, run)
        assert subject.prefix == folder


def test_what_is_no_python_is_named(lab: Lab, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="does not report which environment"):
        from_interpreter(python, run)


@pytest.mark.parametrize(
    ("suite", "told"),
    [
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        (
            "import sys; open(sys.argv[2], 'w').write('{')",
            "before it could write a report",
        ),
    ],
)
def test_a_suite_that_dies_is_an_error_and_changes_nothing(
    lab: Lab, suite: str, told: str
) -> None:
    write_suite(lab, suite)
    with pytest.raises(ToolError) as caught:
        lab.build()
    assert told in caught.value.cause
    assert lab.left() == []


# The report of a run that broke after one check: the false green of an environment without pytest.
BROKE = """
import json, sys
check = {"id": "identity.import", "outcome": "passed", "title": "t", "stands_for": "s",
         "seconds": 0.1, "numbers": {}, "finding": None}
missing = [{"id": "device.ready", "title": "t", "required": True, "reason": "the run ended before it"}]
json.dump({"schema": 2, "suite": "quick", "target": "tiny", "python": "3", "torch": None,
           "device": {}, "started": "2026-01-01T00:00:00Z", "seconds": 0.1, "checks": [check],
           "not_run": missing}, open(sys.argv[2], "w"))
sys.exit(CODE)
"""


def test_what_is_owed_and_was_not_run_is_never_proven(lab: Lab) -> None:
    write_suite(lab, BROKE.replace("CODE", "3"))
    with pytest.raises(ToolError):
        lab.build()
    write_suite(lab, BROKE.replace("CODE", "0"))
    built = lab.build()
    assert built.generation is None
    assert built.report is not None
    counts = built.report.counts
    assert counts["required"] == 2
    assert counts["passed"] == 1
    assert counts["not_run"] == 1
    assert lab.left() == []


def test_a_suite_that_breaks_says_what_is_known_and_what_is_missing(
    ready: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_suite(ready, BROKE.replace("CODE", "3"))
    junit = tmp_path / "junit.xml"
    assert call(ready, "--junit", str(junit)) == Exit.TOOL
    words = capsys.readouterr().err
    assert "1 checks ended; not run: device.ready" in words
    path = history(ready.project, TARGET)[-1]
    unwrapped = "".join(words.split())
    assert str(path) in unwrapped
    report = read_report(path)
    assert report.word == "incomplete"
    assert "exit code 3" in report.broken
    (ended,) = report.checks
    assert ended.id == "identity.import"
    root = ET.parse(junit).getroot()
    assert root.get("tests") == "3"
    assert root.get("errors") == "2"
    errors = []
    for case in root.iter("testcase"):
        if case.find("error") is not None:
            suite, name = case.get("classname"), case.get("name")
            errors.append(f"{suite}.{name}")
    assert errors == ["suite.end", "device.ready"]


DIED = "import os, sys\nif '--ended' not in sys.argv:\n    os._exit(9)\n"


def test_a_broken_suite_withdraws_the_proof_until_a_whole_run_passes(
    ready: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_check = BROKE.replace("identity.import", "tiny.check")
    partial = one_check.replace("CODE", "3")
    # Every check has passed, and then its own process fails.
    fails_at_the_end = SUITE.replace("sys.exit(broken)", "sys.exit(3)")
    for suite, why in (
        ("raise RuntimeError('of the suite')", "ended with exit code 1"),
        (DIED + partial, "ended with exit code 9"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        (fails_at_the_end, "ended with exit code 3"),
    ):
        write_suite(ready, suite)
        junit = tmp_path / "junit.xml"
        capsys.readouterr()
        assert call(ready, "--json", "--junit", str(junit)) == Exit.TOOL
        error = result(capsys)["error"]["evidence"]
        report = newest(ready)
        shortfall = report.shortfall
        assert shortfall.startswith(f"incomplete on {report.started}: ")
        assert why in shortfall
        sentence = f"{TARGET} is unproven: {shortfall}"
        assert sentence in error
        assert sentence in render_page([report])
        assert proof(ready, capsys) == f"unproven: {shortfall}"
        generation = current_generation(ready.home)
        assert generation is not None
        assert generation.record.reason == shortfall
        root = ET.parse(junit).getroot()
        assert root.get("errors") != "0"
        # What holds no longer is not told again, and a check of the hardware proves nothing.
        assert call(ready, "--if-driver-changed") == Exit.TOOL
        write_suite(ready, SUITE)
        assert call(ready, "--health") == Exit.OK
        assert proof(ready, capsys).startswith("unproven: incomplete")
        assert call(ready) == Exit.OK
        assert proof(ready, capsys) == "proven (1 of 1)"


def test_a_report_that_is_gone_does_not_hide_that_nothing_is_proven(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready) == Exit.OK
    write_suite(ready, "raise RuntimeError('of the suite')")
    assert call(ready) == Exit.TOOL
    *_, last = history(ready.project, TARGET)
    last.unlink()
    assert proof(ready, capsys) == "unproven"
    write_suite(ready, SUITE)
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert proof(ready, capsys) == "proven (1 of 1)"


@pytest.fixture
def rated(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let a GPU's history be eight runs of 100 images/s, and give the rates of the next ones.

    The command lines of all runs are returned by the next call.
    """
    monkeypatch.setattr("provision.commands.check.PAUSE", 0.0)
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text()
    spec.write_text(text.replace('"cpu"', '"cuda"', 1))
    lab.relock(*lab.wheels)
    rates = lab.project.root / "rates"
    asked = lab.project.root / "asked"
    take_a_rate = f"""
import os, pathlib, sys
rates = pathlib.Path({str(rates)!r})
first, *others = rates.read_text().split()
rates.write_text(" ".join(others))
with open({str(asked)!r}, "a") as stream:
    print(os.getpid(), *sys.argv, file=stream)
"""
    error = '"error": {"value": 1e-7, "unit": "1"}'
    rate = '"rate": {"value": float(first), "unit": "images/s"}'
    write_suite(lab, take_a_rate + SUITE.replace(error, rate))
    rates.write_text("100")
    lab.build()
    (path,) = history(lab.project, TARGET)
    today = path.name[:8]
    for day in range(1, 8):
        name = path.name.replace(today, f"2025010{day}")
        shutil.copyfile(path, path.with_name(name))
    asked.unlink()

    def give(*numbers: int) -> list[str]:
        words = [str(number) for number in numbers]
        rates.write_text(" ".join(words))
        if not asked.exists():
            return []
        return asked.read_text().splitlines()

    return give


def test_a_slow_rate_is_measured_again_and_the_better_one_counts(
    lab: Lab, rated: Callable[..., list[str]]
) -> None:
    rated(40, 98)
    assert call(lab) == Exit.OK
    first_line, second_line = rated()
    first = first_line.split()
    second = second_line.split()
    assert first[0] != second[0]
    assert "--only" not in first
    assert value_of("--only", second) == "tiny.check"
    report = newest(lab)
    (slow,) = report.checks
    rate = slow.numbers["rate"]
    assert rate.value == 98
    assert rate.again == 40
    assert report.word == "passed"


def test_only_slower_has_a_code_of_its_own(
    lab: Lab, rated: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    rated(40, 42, 39, 41)
    assert Exit.SLOWER.value == 6
    assert call(lab) == Exit.SLOWER
    assert "the best of several measurements, the least 39" in capsys.readouterr().out
    report = newest(lab)
    assert report.word == "slower"
    assert report.proves is True
    (slow,) = report.checks
    assert slow.numbers["rate"].value == 42
    assert proof(lab, capsys).startswith("proven")
    rated(41, 40, 39, 38)
    assert call(lab, "--fail-if-slower") == Exit.FINDINGS
    assert newest(lab).word == "worse"


def test_a_second_measurement_that_breaks_leaves_the_first(
    lab: Lab, rated: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    rated(40)  # the second process finds none, and dies
    assert call(lab) == Exit.SLOWER
    (slow,) = newest(lab).checks
    rate = slow.numbers["rate"]
    assert rate.value == 40
    assert rate.again is None
    told = capsys.readouterr().err
    assert told.count("could not be measured again") == 1, "it would break again"


def note_expectation(lab: Lab) -> Path:
    """Let the suite leave its command line and its expectation."""
    out = lab.project.root / "asked"
    words = "' '.join(sys.argv) + chr(10) + open(sys.argv[1]).read()"
    note = f"open({str(out)!r}, 'w').write({words}); sys.exit("
    write_suite(lab, SUITE.replace("sys.exit(", note))
    return out


def asked(out: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the words and the expectation that the last run got."""
    words, text = out.read_text().split("\n", 1)
    return words.split(), json.loads(text)


def value_of(option: str, argv: list[str]) -> str:
    position = argv.index(option)
    return argv[position + 1]


def test_the_suite_gets_its_device_and_what_the_caller_has_set(
    ready: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = note_expectation(ready)
    name = "PYTORCH_ENABLE_CPU_FALLBACK"
    cpu = ACCELERATORS["cpu"]
    with_fallback = cpu._replace(fallback=(name,))
    monkeypatch.setitem(ACCELERATORS, "cpu", with_fallback)
    monkeypatch.setenv(name, "1")
    for words, device in (
        (["--full"], "all"),
        (["--full", "--device", "00"], "0"),
        (["--device", "all"], "all"),
        ([], "0"),
    ):
        assert call(ready, *words) == Exit.OK
        argv, expected = asked(out)
        assert value_of("--device", argv) == device
    runner = Path(value_of("--runner", argv))
    assert (runner / "pytest").is_dir()
    (setting,) = expected["fallback"]
    assert setting.startswith(f"{name}=1 ")
    assert "peaks" not in expected
    assert "soak" not in expected


def test_health_asks_for_the_hardware_alone_and_proves_nothing(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    write_suite(ready, BROKE.replace("CODE", "1"))
    assert call(ready) == Exit.FINDINGS
    before = last_report(ready.project, TARGET)
    unproven = proof(ready, capsys)
    out = note_expectation(ready)
    assert call(ready, "--health", "--soak", "10m") == Exit.OK
    words, expected = asked(out)
    assert "--full" in words
    only = []
    for option, value in pairwise(words):
        if option == "--only":
            only.append(value)
    assert only == ["device.ready", "health", "transfer", "collective"]
    assert expected["soak"] == 600.0
    peaks = expected["peaks"]["Tesla T4"]
    assert peaks["memory"] == 320.0
    *_, last = history(ready.project, TARGET)
    assert last.stem.endswith("-health")
    # Neither the verdict of the target nor `--if-driver-changed` may rest on it.
    assert last_report(ready.project, TARGET) == before
    assert proof(ready, capsys) == unproven


@pytest.mark.parametrize(
    "words",
    [
        ["--soak", "10m"],
        ["--health", "--soak", "10"],
        ["--health", "--soak", "0s"],
        ["--health", "--soak", "25h"],
        ["--health", "--full"],
        ["--device", "first"],
    ],
)
def test_wrong_words_are_refused(
    lab: Lab, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):
        assert call(lab, *words) == Exit.USAGE
    assert "error" in capsys.readouterr().err


def test_a_device_that_torch_does_not_count_is_refused_before_anything_runs(
    lab: Lab,
) -> None:
    text = "class cuda:\n    device_count = staticmethod(lambda: COUNT)\n"
    torch = lab.wheel("torch", text=text)
    lab.relock(*lab.wheels, torch)
    lab.build()
    order = lab.order()
    target = order.target.model_copy(update={"accelerator": "cuda"})
    generation = (lab.home / "current").resolve()
    subject = from_generation(generation, order.lock)
    module = installed(lab, "torch.py")

    def count_as(number: str) -> None:
        module.write_text(text.replace("COUNT", number))
        # Python takes that of another file of the same length and second.
        shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)

    count_as("2")
    third = SmokeRequest(lab.project, target, {}, device="2")
    with pytest.raises(UsageError) as caught:
        check(third, subject, run, lab.listener)
    assert "devices 0 to 1" in caught.value.cause

    second = SmokeRequest(lab.project, target, {}, device="1")
    count_as("1")
    with pytest.raises(UsageError) as caught:
        check(second, subject, run, lab.listener)
    assert "only device 0" in caught.value.cause

    for count in ("2", "0", "unknown"):
        count_as(count)
        kept = check(second, subject, run, lab.listener)
        assert kept.report.scope == "1"
    assert call(lab, "--device", "3") == Exit.USAGE  # of a CPU there is one


def test_a_fallback_of_the_caller_is_told_to_the_suite_with_who_gets_it() -> None:
    target = load_target(CATALOG.parent, "arc-linux")
    caller = {
        "PYTORCH_ENABLE_XPU_FALLBACK": "1",
        "PYTORCH_XPU_FALLBACK_OP": "",
        "PYTORCH_ENABLE_MPS_FALLBACK": "1",
    }
    (setting,) = fallback_of_caller(target, caller)
    assert setting.startswith("PYTORCH_ENABLE_XPU_FALLBACK=1 ")
    assert "`run` drops it" in setting
    keep = ("PYTORCH_ENABLE_XPU_FALLBACK",)
    keeping = target.run.model_copy(update={"keep": keep})
    keeps = target.model_copy(update={"run": keeping})
    (setting,) = fallback_of_caller(keeps, caller)
    assert "`run` passes it on" in setting
    caller["PYTORCH_ENABLE_XPU_FALLBACK"] = "0"
    assert fallback_of_caller(target, caller) == []


def test_the_device_list_of_the_catalog_is_expected_on_intel_gpus(
    tmp_path: Path,
) -> None:
    target = load_target(CATALOG.parent, "max-linux")
    expected = expectation(target, {}, CATALOG)
    path = tmp_path / "expect.json"
    path.write_text(json.dumps(expected))
    ponte_vecchio = expected["intel_devices"]["pvc"]
    assert "Data Center GPU Max 1550" in ponte_vecchio["names"]
    assert "0bd5" in ponte_vecchio["ids"]
    devices = read_expectation(path).intel_devices
    for family in expected["families"]:
        assert family in devices


@pytest.mark.parametrize(
    ("target", "driver", "verdict"),
    [
        ("cuda-linux", Driver("nvidia", "580.95.05"), "new-enough"),
        ("cuda-linux", Driver("nvidia", "570.86.15"), "too-old"),
        ("arc-windows", Driver("Intel Corporation", "32.0.101.6044"), "too-old"),
        (
            "ipex-llm-windows",
            Driver("Intel Corporation", "31.0.101.5186"),
            "new-enough",
        ),
        ("arc-linux", Driver("xe"), "unknown"),  # no compute-runtime to be seen
    ],
)
def test_the_driver_is_judged_where_the_suite_will_run(
    tmp_path: Path, target: str, driver: Driver, verdict: str
) -> None:
    spec = load_target(CATALOG.parent, target)
    vendor, family = "intel", "dg2"
    if spec.accelerator == "cuda":
        vendor, family = "nvidia", None
    gpu = Gpu(vendor, "56a0", "a GPU", "0000:03:00.0", family=family, driver=driver)
    host = Host(spec.platform, "", gpus=(gpu,))
    expected = expectation(spec, {}, CATALOG, host)
    path = tmp_path / "expect.json"
    path.write_text(json.dumps(expected))
    found = read_expectation(path).driver_verdict
    assert found
    assert found["verdict"] == verdict


def test_no_driver_is_judged_for_another_machine_or_without_a_requirement() -> None:
    cuda = load_target(CATALOG.parent, "cuda-linux")
    elsewhere = expectation(cuda, {}, CATALOG, None)
    assert elsewhere["driver_verdict"] is None
    cpu = load_target(CATALOG.parent, "cpu-linux")
    here = expectation(cpu, {}, CATALOG, Host("linux-64", ""))
    assert here["driver_verdict"] is None


def test_what_was_built_from_an_older_lock_is_checked_as_it_was_built(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    out = note_expectation(ready)
    newer = ready.wheel("alpha", "2.0")
    further = ready.wheel("gamma")
    ready.relock(newer, further)
    spec = ready.project.specs / f"{TARGET}.toml"
    replace(spec, 'requirements = ["', 'requirements = ["gamma", "')
    assert call(ready) == Exit.OK, "it is what is in use"
    assert "built from an older lock" in capsys.readouterr().err
    _, expected = asked(out)
    assert expected["packages"] == {"alpha": "1.0", "beta": "1.0"}
    assert expected["requirements"] == ["alpha"]
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert proof(ready, capsys) == "from an older lock"
    # A file that changed is found whatever the lock is.
    installed(ready, "beta.py").write_text("pass\n")
    root = str(ready.project.root)
    argv = ["verify", TARGET, "--json", "--project", root]
    assert main.main(argv) == Exit.FINDINGS
    findings = result(capsys)["findings"]
    remedies = {finding["code"]: finding["remedy"] for finding in findings}
    assert len(findings) == 2
    assert set(remedies) == {"changed-file", "older-lock"}
    assert remedies["older-lock"].startswith(f"`provision build {TARGET}`")
