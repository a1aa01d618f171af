"""The verb: it keeps reports, compares them, and survives a suite that does not."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
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
from provision.environment.manifest import current_generation
from provision.host.model import Driver, Gpu, Host
from provision.report.history import history, last_report
from provision.report.model import read_report
from provision.spec.reader import load_target
from provision.ui.html_report import render_page
from smoke.engine.expect import read as read_expectation
from tests.small import CATALOG, SUITE, TARGET

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab import Lab

pytestmark = pytest.mark.machine


def call(lab: Lab, *words: str) -> int:
    return main.main(["smoke", TARGET, "--project", str(lab.project.root), *words])


def proof(lab: Lab, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    main.main(["targets", "--json", "--project", str(lab.project.root)])
    (row,) = json.loads(capsys.readouterr().out)["result"]["rows"]
    return str(row["proof"])


def write_suite(lab: Lab, text: str) -> None:
    (lab.project.smoke / "run.py").write_text(text)


def test_a_second_run_is_compared_with_the_first(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    built = lab.build()
    assert built.report is not None
    assert built.generation is not None
    assert built.report.stack == {"kernel": "6.1"}
    assert built.report.lock == built.generation.record.lock
    (path,) = history(lab.project, TARGET)
    path.write_text(path.read_text().replace("2026-01-01", "2025-01-01"))
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
    site = next((ready.home / "current").resolve().rglob("alpha.py")).parent
    (site / "broken.py").touch()
    assert call(ready) == Exit.FINDINGS
    assert "tiny.check worked and fails now" in capsys.readouterr().out
    assert proof(ready, capsys).startswith("unproven")
    (site / "broken.py").unlink()
    assert call(ready) == Exit.OK
    assert proof(ready, capsys) == "proven (1 of 1)"


def test_it_runs_only_if_a_driver_changed_on_the_device(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    # The ready's kernel is not this machine's.
    for runs in (2, 2):
        assert call(ready, "--if-driver-changed") == Exit.OK
        assert len(history(ready.project, TARGET)) == runs
    out, err = capsys.readouterr()
    assert "all passed then" in out
    assert err.count("the checks run: kernel: 6.1 -> ") == 1
    # A verdict of another device spares no run.
    for path in history(ready.project, TARGET):
        path.write_text(path.read_text().replace('"asked": "0"', '"asked": "1"'))
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert len(history(ready.project, TARGET)) == 3
    assert "the checks run: no quick run is known here" in capsys.readouterr().err


def test_an_edited_file_changes_no_verdict_and_is_found_by_verify(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    next((ready.home / "current").resolve().rglob("beta.py")).write_text("pass\n")
    project = ("--project", str(ready.project.root))
    assert main.main(["verify", TARGET, "--deep", *project]) == Exit.FINDINGS
    assert "beta.py" in capsys.readouterr().out
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert "all passed then" in capsys.readouterr().out
    assert proof(ready, capsys) == "proven (1 of 1)"


def test_where_nothing_runs_it_still_says_that_the_lock_changed(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    assert "provision build" not in capsys.readouterr().err
    ready.relock(ready.wheel("alpha", "2.0"), ready.wheels[1])
    assert call(ready, "--if-driver-changed") == Exit.OK
    out, err = capsys.readouterr()
    assert "all passed then" in out
    path = f"lockfiles/{TARGET}/requirements.txt"
    note = f"! {TARGET}: the environment in use is not that of {path}; "
    assert " ".join(err.split()).count(note) == 1
    assert f"provision build {TARGET}`" in err


def test_it_also_runs_once_the_last_report_is_too_old(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--if-driver-changed", "--max-age", "1d")
    assert call(ready, *words[:1]) == Exit.OK  # on this machine's kernel
    for runs in (3, 4):  # the suite of the lab dates its reports back
        assert call(ready, *words) == Exit.OK
        assert len(history(ready.project, TARGET)) == runs
    said = capsys.readouterr().err
    assert said.count("the checks run: the last run is older than --max-age") == 2
    path = history(ready.project, TARGET)[-1]
    now = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    path.write_text(path.read_text().replace("2026-01-01T00:00:00Z", now))
    assert call(ready, *words) == Exit.OK
    assert len(history(ready.project, TARGET)) == 4
    assert call(ready, *words[1:]) == Exit.USAGE


def test_the_quick_checks_of_a_build_are_no_verdict_of_the_full_suite(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, "--if-driver-changed") == Exit.OK  # on this machine's kernel
    capsys.readouterr()
    for runs in (3, 3):
        assert call(ready, "--full", "--if-driver-changed") == Exit.OK
        assert len(history(ready.project, TARGET)) == runs
    assert "all passed then" in capsys.readouterr().out
    # All checks are also the quick ones.
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert len(history(ready.project, TARGET)) == 3


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
    assert call(ready, "--junit", str(tmp_path / "junit.xml")) == Exit.FINDINGS
    report = last_report(ready.project, TARGET)
    assert report is not None
    finding = report.checks[0].finding
    assert finding is not None
    assert finding.code == "driver-too-old"
    assert "oneDNN" in finding.cause
    assert finding.symptom == "RuntimeError: could not make an engine with allocator"
    failure = ET.parse(tmp_path / "junit.xml").getroot().find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "driver-too-old"
    assert finding.cause in (failure.text or "")


def test_another_environment_is_checked_as_it_is_and_keeps_no_report(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(sys.prefix)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
    assert call(lab, "--against", "python", "--json") == Exit.OK
    assert json.loads(capsys.readouterr().out)["result"]["report"]["checks"]
    assert history(lab.project, TARGET) == []
    for named in (folder, folder / "bin", folder / "bin" / "python"):
        assert from_interpreter(named, run).prefix == folder


def test_what_is_no_python_is_named(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(UsageError, match="does not report which environment"):
        from_interpreter(tmp_path / "python", run)


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
    assert str(path) in words.replace("\n", "").replace(" ", "")
    report = read_report(path)
    assert report.word == "incomplete"
    assert "exit code 3" in report.broken
    assert [check.id for check in report.checks] == ["identity.import"]
    root = ET.parse(junit).getroot()
    assert root.get("tests") == "3"
    assert root.get("errors") == "2"
    errors = []
    for case in root.iter("testcase"):
        if case.find("error") is not None:
            errors.append((case.get("classname"), case.get("name")))
    assert errors == [("suite", "end"), ("device", "ready")]


DIED = "import os, sys\nif '--ended' not in sys.argv:\n    os._exit(9)\n"


def test_a_broken_suite_withdraws_the_proof_until_a_whole_run_passes(
    ready: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partial = BROKE.replace("CODE", "3").replace("identity.import", "tiny.check")
    for suite, why in (
        ("raise RuntimeError('of the suite')", "ended with exit code 1"),
        (DIED + partial, "ended with exit code 9"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        (
            # Every check has passed, and then its own process fails.
            SUITE.replace("sys.exit(broken)", "sys.exit(3)"),
            "ended with exit code 3",
        ),
    ):
        write_suite(ready, suite)
        junit = tmp_path / "junit.xml"
        capsys.readouterr()
        assert call(ready, "--json", "--junit", str(junit)) == Exit.TOOL
        error = json.loads(capsys.readouterr().out)["result"]["error"]["evidence"]
        report = read_report(history(ready.project, TARGET)[-1])
        assert report.shortfall.startswith(f"incomplete on {report.started}: ")
        assert why in report.shortfall
        unproven = f"unproven: {report.shortfall}"
        assert f"{TARGET} is {unproven}" in error
        assert f"{TARGET} is {unproven}" in render_page([report])
        assert proof(ready, capsys) == unproven
        generation = current_generation(ready.home)
        assert generation is not None
        assert generation.record.reason == report.shortfall
        assert ET.parse(junit).getroot().get("errors") != "0"
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
    history(ready.project, TARGET)[-1].unlink()
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
    spec.write_text(spec.read_text().replace('"cpu"', '"cuda"', 1))
    lab.relock(*lab.wheels)
    rates, asked = lab.project.root / "rates", lab.project.root / "asked"
    (lab.project.smoke / "run.py").write_text(
        f"""
import os, pathlib, sys
rates = pathlib.Path({str(rates)!r})
first, *others = rates.read_text().split()
rates.write_text(" ".join(others))
with open({str(asked)!r}, "a") as stream:
    print(os.getpid(), *sys.argv, file=stream)
"""
        + SUITE.replace(
            '"error": {"value": 1e-7, "unit": "1"}',
            '"rate": {"value": float(first), "unit": "images/s"}',
        )
    )
    rates.write_text("100")
    lab.build()
    (path,) = history(lab.project, TARGET)
    for number in range(7):
        name = path.name.replace(path.name[:8], f"2025010{number + 1}")
        path.with_name(name).write_text(path.read_text())
    asked.unlink()

    def give(*numbers: int) -> list[str]:
        rates.write_text(" ".join(map(str, numbers)))
        return asked.read_text().splitlines() if asked.exists() else []

    return give


def test_a_slow_rate_is_measured_again_and_the_better_one_counts(
    lab: Lab, rated: Callable[..., list[str]]
) -> None:
    rated(40, 98)
    assert call(lab) == Exit.OK
    first, second = (line.split() for line in rated())
    assert first[0] != second[0]
    assert "--only" not in first
    assert second[second.index("--only") + 1] == "tiny.check"
    report = read_report(history(lab.project, TARGET)[-1])
    rate = report.checks[0].numbers["rate"]
    assert rate.value == 98
    assert rate.again == 40
    assert report.word == "passed"


def test_only_slower_has_a_code_of_its_own(
    lab: Lab, rated: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    rated(40, 42, 39, 41)
    assert call(lab) == Exit.SLOWER.value == 6
    assert "the best of several measurements, the least 39" in capsys.readouterr().out
    report = read_report(history(lab.project, TARGET)[-1])
    assert report.word == "slower"
    assert report.proves is True
    assert report.checks[0].numbers["rate"].value == 42
    assert proof(lab, capsys).startswith("proven")
    rated(41, 40, 39, 38)
    assert call(lab, "--fail-if-slower") == Exit.FINDINGS
    assert read_report(history(lab.project, TARGET)[-1]).word == "worse"


def test_a_second_measurement_that_breaks_leaves_the_first(
    lab: Lab, rated: Callable[..., list[str]]
) -> None:
    rated(40)  # the second process finds none, and dies
    assert call(lab) == Exit.SLOWER
    rate = read_report(history(lab.project, TARGET)[-1]).checks[0].numbers["rate"]
    assert rate.value == 40
    assert rate.again is None


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


def test_the_suite_gets_its_device_and_what_the_caller_has_set(
    ready: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = note_expectation(ready)
    name = "PYTORCH_ENABLE_CPU_FALLBACK"
    kind = ACCELERATORS["cpu"]._replace(fallback=(name,))
    monkeypatch.setitem(ACCELERATORS, "cpu", kind)
    monkeypatch.setenv(name, "1")
    for words, device in (
        (["--full"], "all"),
        (["--full", "--device", "00"], "0"),
        (["--device", "all"], "all"),
        ([], "0"),
    ):
        assert call(ready, *words) == Exit.OK
        argv, expected = asked(out)
        assert argv[argv.index("--device") + 1] == device
    assert (Path(argv[argv.index("--runner") + 1]) / "pytest").is_dir()
    (setting,) = expected["fallback"]
    assert setting.startswith(f"{name}=1 ")
    assert {"peaks", "soak"}.isdisjoint(expected)


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
    only = [word for flag, word in pairwise(words) if flag == "--only"]
    assert only == ["device.ready", "health", "transfer", "collective"]
    assert expected["soak"] == 600.0
    assert expected["peaks"]["Tesla T4"]["memory"] == 320.0
    assert history(ready.project, TARGET)[-1].stem.endswith("-health")
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
    lab.relock(*lab.wheels, lab.wheel("torch", text=text))
    lab.build()
    order = lab.order()
    target = order.target.model_copy(update={"accelerator": "cuda"})
    subject = from_generation((lab.home / "current").resolve(), order.lock)
    torch = next(subject.prefix.rglob("torch.py"))
    for count, device, refused in (
        ("2", "2", True),
        ("2", "1", False),
        ("0", "1", False),
    ):
        torch.write_text(text.replace("COUNT", count))
        request = SmokeRequest(lab.project, target, {}, device=device)
        if refused:
            with pytest.raises(UsageError) as caught:
                check(request, subject, run, lab.listener)
            assert "devices 0 to 1" in caught.value.cause
        else:
            kept = check(request, subject, run, lab.listener)
            assert kept.report.scope == device
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
    keeping = target.run.model_copy(update={"keep": ("PYTORCH_ENABLE_XPU_FALLBACK",)})
    kept = target.model_copy(update={"run": keeping})
    assert "`run` passes it on" in fallback_of_caller(kept, caller)[0]
    assert (
        fallback_of_caller(target, caller | {"PYTORCH_ENABLE_XPU_FALLBACK": "0"}) == []
    )


def test_the_device_list_of_the_catalog_is_expected_on_intel_gpus(
    tmp_path: Path,
) -> None:
    target = load_target(CATALOG.parent, "max-linux")
    expected = expectation(target, {}, CATALOG)
    path = tmp_path / "expect.json"
    path.write_text(json.dumps(expected))
    assert "Data Center GPU Max 1550" in expected["intel_devices"]["pvc"]["names"]
    assert "0bd5" in expected["intel_devices"]["pvc"]["ids"]
    assert set(expected["families"]) <= set(read_expectation(path).intel_devices)


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
    vendor, family = ("nvidia", None) if target.startswith("cuda") else ("intel", "dg2")
    gpu = Gpu(vendor, "56a0", "a GPU", "0000:03:00.0", family=family, driver=driver)
    host = Host("win-64" if target.endswith("windows") else "linux-64", "", gpus=(gpu,))
    expected = expectation(load_target(CATALOG.parent, target), {}, CATALOG, host)
    path = tmp_path / "expect.json"
    path.write_text(json.dumps(expected))
    found = read_expectation(path).driver_verdict
    assert found
    assert found["verdict"] == verdict


def test_no_driver_is_judged_for_another_machine_or_without_a_requirement() -> None:
    for name, host in {"cuda-linux": None, "cpu-linux": Host("linux-64", "")}.items():
        target = load_target(CATALOG.parent, name)
        assert expectation(target, {}, CATALOG, host)["driver_verdict"] is None


def test_what_was_built_from_an_older_lock_is_checked_as_it_was_built(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    out = note_expectation(ready)
    ready.relock(ready.wheel("alpha", "2.0"), ready.wheel("gamma"))
    spec = ready.project.specs / f"{TARGET}.toml"
    text = spec.read_text()
    spec.write_text(text.replace('requirements = ["', 'requirements = ["gamma", "', 1))
    assert call(ready) == Exit.OK, "it is what is in use"
    assert "built from an older lock" in capsys.readouterr().err
    _, expected = asked(out)
    assert expected["packages"] == {"alpha": "1.0", "beta": "1.0"}
    assert expected["requirements"] == ["alpha"]
    assert call(ready, "--if-driver-changed") == Exit.OK
    assert proof(ready, capsys) == "from an older lock"
    # A file that changed is found whatever the lock is.
    next((ready.home / "current").resolve().rglob("beta.py")).write_text("pass\n")
    argv = ["verify", TARGET, "--json", "--project", str(ready.project.root)]
    assert main.main(argv) == Exit.FINDINGS
    findings = json.loads(capsys.readouterr().out)["result"]["findings"]
    older, changed = sorted(
        findings, key=lambda finding: str(finding["code"]), reverse=True
    )
    assert older["code"] == "older-lock"
    assert changed["code"] == "changed-file"
    assert older["remedy"].startswith(f"`provision build {TARGET}`")
