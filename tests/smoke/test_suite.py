"""The suite as the toolkit starts it, in a real environment."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.process import clean_environment, run
from tests.smoke.conftest import SUITE
from tests.smoke.faults import check_ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provision.core.process import Completed

    Suite = Callable[..., tuple[Completed, Any]]

pytestmark = pytest.mark.machine
KEYS = {
    "schema",
    "suite",
    "target",
    "python",
    "torch",
    "device",
    "started",
    "seconds",
    "checks",
    "not_run",
    "devices",
    "operators",
    "broken",
    "load",
}
CHECK_KEYS = {"id", "title", "stands_for", "outcome", "seconds", "numbers", "finding"}
# What the plain CPU target has no part in.
ELSEWHERE = {
    *(
        "device.family",
        "device.driver",
        "device.fallback",
        "fused.operators",
        "rotary.ipex-llm",
    ),
    *("low-bit.linear", "low-bit.models"),
    *(
        "resume.portable",
        "transfer.roundtrip",
        "transfer.speed",
        "rotary.scripted",
        "memory.large",
    ),
}


def test_the_full_suite_passes_and_reports(suite: Suite) -> None:
    done, report = suite("--full")
    assert done.returncode == 0, done.stdout
    assert set(report) == KEYS
    assert (report["schema"], report["suite"], report["target"]) == (
        1,
        "full",
        "cpu-linux",
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report["started"])
    assert report["device"]["name"]
    assert report["seconds"] > 0
    found = {check["id"]: check for check in report["checks"]}
    assert len(found) == len(report["checks"]), "an id is used twice"
    not_run = {entry["id"]: entry for entry in report["not_run"]}
    assert set(not_run) == check_ids() - set(found)
    assert set(not_run) - {"compile.mul_add"} == ELSEWHERE
    assert all(not entry["owed"] and entry["reason"] for entry in not_run.values())
    for check in found.values():
        assert set(check) - {"not_measured"} == CHECK_KEYS
        assert check["title"].endswith(".")
        assert check["stands_for"]
        for number in check["numbers"].values():
            assert isinstance(number["value"], (int, float))
            assert number["unit"]
    assert found["throughput.training"]["numbers"]["throughput"]["unit"] == "images/s"
    assert found["throughput.training"]["numbers"]["throughput"]["spread"] >= 0


def test_the_quick_suite_leaves_the_long_checks_out(suite: Suite) -> None:
    # A fault that ends the checks early keeps this short: without its device nothing else runs.
    # And a lock without accelerate does not leave the checks that need it out in silence.
    done, report = suite(accelerator="cuda", packages={})
    assert done.returncode == 1
    assert report["suite"] == "quick"
    found = {check["id"]: check["finding"] for check in report["checks"]}
    assert "memory.leak" not in found
    reasons = {entry["id"]: entry["reason"] for entry in report["not_run"]}
    assert reasons["memory.leak"] == "only in the full suite"
    assert reasons["offload.tied"] == "needs accelerate, which is not locked"
    assert set(found) | set(reasons) == check_ids()
    bad = {name: finding for name, finding in found.items() if finding}
    wrong = {name for name, finding in bad.items() if finding["code"] != "blocked"}
    assert wrong == {"identity.build", "device.ready"}
    assert {bad[name]["code"] for name in wrong} == {"cpu-build-of-torch-installed"}
    assert all(bad[name]["level"] == "note" for name in set(bad) - wrong)


def test_one_check_can_be_run_again(suite: Suite) -> None:
    done, report = suite("--only", "fused.attention")
    assert done.returncode == 0
    assert [check["id"] for check in report["checks"]] == [
        "identity.import",
        "fused.attention",
    ]
    assert len(done.stdout.splitlines()) == 2


def test_a_check_that_does_not_exist_breaks_the_run(suite: Suite) -> None:
    done, _ = suite("--only", "fused.atention")
    assert done.returncode == 3
    assert "no such check: fused.atention" in done.stderr


def test_a_check_that_does_not_apply_is_not_green(suite: Suite) -> None:
    done, _ = suite("--only", "transfer.speed")
    assert done.returncode == 3
    assert (
        "not for cpu-linux: transfer.speed (only for targets with a GPU)" in done.stderr
    )


def test_an_area_can_be_asked_for(suite: Suite) -> None:
    done, report = suite("--full", "--only", "health")
    assert done.returncode == 0
    found = {each["id"]: each for each in report["checks"]}
    assert set(found) == {
        "identity.import",
        "health.speed",
        "health.memory",
        "health.load",
    }
    load = found["health.load"]
    # What this machine does not tell is named, and what it tells is drawn.
    told = {
        name for name in ("temperature", "power", "clock") if name in load["numbers"]
    }
    assert told | set(load.get("not_measured", ())) >= {"temperature", "power", "clock"}
    assert load["numbers"]["throughput"]["every"] > 0
    done, _ = suite("--full", "--only", "transfer")
    assert done.returncode == 3
    assert "transfer.speed (only for targets with a GPU)" in done.stderr


def test_a_bad_expectation_is_told_at_once(suite: Suite) -> None:
    done, report = suite(accelerator="tpu", rotary=["sideways"])
    assert (done.returncode, report) == (2, None)
    assert "accelerator: 'tpu'" in done.stderr
    assert "rotary: ['sideways']" in done.stderr


def test_a_switch_takes_no_value(suite: Suite) -> None:
    """The trap of argparse's type=bool, for which the text False is true, stays shut."""
    done, report = suite("--full", "False")
    assert (done.returncode, report) == (2, None)


def test_no_bytecode_is_left_in_the_suite(
    python: Path, sound: Path, tmp_path: Path
) -> None:
    # A copy: tests that import modules of the suite leave their own bytecode beside it.
    copy = tmp_path / "smoke"
    shutil.copytree(SUITE.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    words = [python, "-I", copy / "run.py", sound, tmp_path / "report.json"]
    done = run([*words, "--only", "identity.python"], cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not list(copy.rglob("*.pyc"))


def test_the_caller_cannot_change_the_outcome(
    python: Path, sound: Path, tmp_path: Path
) -> None:
    """Neither pytest's variables nor a configuration or conftest in the working directory."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text(
        "raise SystemExit('from the working directory')\n"
    )
    env = clean_environment(
        extra={"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "nowhere"}
    )
    report = tmp_path / "report.json"
    words = [python, "-I", SUITE, sound, report, "--only", "identity.python"]
    done = run(words, env=env, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(report.read_text(encoding="utf-8"))["checks"]) == 2


VOCABULARY = '''
from smoke.engine.check import check
from smoke.engine.finding import fail


def present(device) -> str:
    return ""


def absent(device) -> str:
    return f"{device} has no wings"


def broken(device) -> str:
    raise RuntimeError("the probe itself fails")


@check("extra.excused", stands_for="s", needs=(present, absent))
def test_excused(device) -> None:
    """It needs what the device lacks."""
    assert False


@check("extra.not_excused", stands_for="s", needs=(broken,))
def test_not_excused(device) -> None:
    """A broken probe is no excuse."""
    assert False


@check("extra.advisory", stands_for="s", advisory=True)
def test_advisory() -> None:
    """It is slow."""
    fail("slow", "slow", cause="c", remedy="r", evidence=["e"])


@check("extra.skips", stands_for="s")
def test_skips() -> None:
    """A check cannot excuse itself."""
    import pytest

    pytest.skip("not today")
'''


def test_what_a_device_lacks_excuses_a_check_and_nothing_else_does(
    python: Path, sound: Path, tmp_path: Path
) -> None:
    done, report = run_extra(python, sound, tmp_path, VOCABULARY)
    assert done.returncode == 1, done.stderr
    outcomes = {check["id"]: check["outcome"] for check in report["checks"]}
    assert outcomes == {
        "identity.import": "passed",
        "extra.not_excused": "failed",
        "extra.advisory": "warned",
        "extra.skips": "failed",
    }
    levels = {
        check["id"]: (check["finding"] or {}).get("level") for check in report["checks"]
    }
    assert levels["extra.advisory"] == "warning"
    (excused,) = [
        entry for entry in report["not_run"] if entry["id"] == "extra.excused"
    ]
    assert not excused["owed"]
    assert excused["reason"] == "cpu has no wings"


def test_a_warning_is_green(python: Path, sound: Path, tmp_path: Path) -> None:
    done, report = run_extra(python, sound, tmp_path, VOCABULARY, "extra.advisory")
    assert done.returncode == 0, done.stderr
    assert [check["outcome"] for check in report["checks"]] == ["passed", "warned"]


def run_extra(
    python: Path, sound: Path, tmp_path: Path, text: str, *only: str
) -> tuple[Completed, Any]:
    """Run the checks of another file in a copy of the suite, all of them or those named."""
    shutil.copytree(SUITE.parent, tmp_path / "smoke")
    (tmp_path / "smoke" / "checks" / "test_extra.py").write_text(text)
    report = tmp_path / "report.json"
    names = only or tuple(re.findall(r'@check\("([\w.]+)"', text))
    words = [python, "-I", tmp_path / "smoke" / "run.py", sound, report]
    asked = [part for name in names for part in ("--only", name)]
    done = run([*words, *asked], env=clean_environment(), timeout=120)
    return done, json.loads(report.read_text(encoding="utf-8"))


EXTRA = '''
from smoke.engine.check import check


@check("extra.fails", stands_for="a check file that nobody runs")
def test_extra(device) -> None:
    """It fails."""
    assert str(device) == "elsewhere"
'''


def test_a_new_check_file_is_run_without_being_named_anywhere(
    python: Path, sound: Path, tmp_path: Path
) -> None:
    done, report = run_extra(
        python, sound, tmp_path, EXTRA, "extra.fails", "identity.python"
    )
    assert done.returncode == 1, done.stderr
    outcomes = {check["id"]: check["outcome"] for check in report["checks"]}
    assert outcomes == {
        "identity.import": "passed",
        "identity.python": "passed",
        "extra.fails": "failed",
    }


def test_a_run_that_was_ended_is_reported_from_its_journal(
    python: Path, sound: Path, tmp_path: Path
) -> None:
    journal, written = tmp_path / "journal", tmp_path / "report.json"
    ended = {"id": "identity.import", "title": "t", "stands_for": "s"}
    ended |= {"outcome": "passed", "seconds": 1.0, "numbers": {}, "finding": None}
    lines = [json.dumps({"at": 1.0, "result": ended}), '{"start": {"id": "fused.att']
    journal.write_text("\n".join(lines), encoding="utf-8")
    words = [python, "-I", SUITE, sound, written, "--journal", journal]
    done = run([*words, "--ended", "killed"], env=clean_environment(), timeout=120)
    assert done.returncode == 3
    report = json.loads(written.read_text(encoding="utf-8"))
    assert report["broken"] == "killed"
    assert [check["id"] for check in report["checks"]] == ["identity.import"]
    missing = {entry["id"] for entry in report["not_run"] if entry["owed"]}
    assert "fused.attention" in missing
    assert "fused.attention" in done.stderr
