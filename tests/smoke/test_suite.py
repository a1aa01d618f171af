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
    "device.family",
    "device.driver",
    "device.fallback",
    "fused.operators",
    "rotary.ipex-llm",
    "rotary.scripted",
    "low-bit.linear",
    "low-bit.models",
    "resume.portable",
    "transfer.roundtrip",
    "transfer.speed",
    "memory.large",
}


def judge_contract(report: dict[str, Any]) -> None:
    """Fail unless a report has the fields that its readers take, and every check once."""
    assert set(report) == KEYS
    assert (report["schema"], report["target"]) == (1, "cpu-linux")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report["started"])
    assert report["device"]["name"]
    assert report["seconds"] > 0
    ids = [check["id"] for check in report["checks"]]
    not_run = [entry["id"] for entry in report["not_run"]]
    assert sorted(ids + not_run) == sorted(check_ids())
    for entry in report["not_run"]:
        assert not entry["owed"]
        assert entry["reason"]
    for check in report["checks"]:
        assert set(check) - {"not_measured"} == CHECK_KEYS
        assert check["title"].endswith(".")
        assert check["stands_for"]
        for number in check["numbers"].values():
            assert isinstance(number["value"], (int, float))
            assert number["unit"]


def test_a_run_of_a_few_checks_is_reported_whole(suite: Suite) -> None:
    names = ("identity.import", "device", "selection", "throughput")
    done, report = suite(*(word for name in names for word in ("--only", name)))
    assert done.returncode == 0, done.stdout
    judge_contract(report)
    results = {check["id"]: check for check in report["checks"]}
    assert {name.partition(".")[0] for name in results} == {
        name.partition(".")[0] for name in names
    }
    assert len(done.stdout.splitlines()) == len(results)
    numbers = results["throughput.training"]["numbers"]
    assert numbers["throughput"]["unit"] == "images/s"
    assert numbers["throughput"]["spread"] >= 0


@pytest.mark.profiles
def test_the_full_suite_passes(suite: Suite) -> None:
    done, report = suite("--full")
    assert done.returncode == 0, done.stdout
    judge_contract(report)
    assert report["suite"] == "full"
    not_run = {entry["id"] for entry in report["not_run"]}
    assert not_run - {"compile.mul_add"} == ELSEWHERE
    load = next(check for check in report["checks"] if check["id"] == "health.load")
    # What this machine does not tell is named, and what it tells is drawn.
    told = load["numbers"].keys() | set(load.get("not_measured", ()))
    assert told >= {"temperature", "power", "clock"}
    assert load["numbers"]["throughput"]["every"] > 0


def test_the_quick_suite_leaves_the_long_checks_out(suite: Suite) -> None:
    # A fault that ends the checks early keeps this short: without its device nothing else runs.
    # And a lock without accelerate does not leave the checks that need it out in silence.
    done, report = suite(accelerator="cuda", packages={}, requirements=["torch"])
    assert done.returncode == 1
    assert report["suite"] == "quick"
    findings = {check["id"]: check["finding"] for check in report["checks"]}
    assert "memory.leak" not in findings
    reasons = {entry["id"]: entry["reason"] for entry in report["not_run"]}
    assert reasons["memory.leak"] == "only in the full suite"
    assert reasons["offload.tied"] == "needs accelerate, which is not locked"
    assert set(findings) | set(reasons) == check_ids()
    causes, blocked = {}, []
    for name, finding in findings.items():
        if finding and finding["code"] == "blocked":
            blocked.append(finding["level"])
        elif finding:
            causes[name] = finding["code"]
    assert causes == dict.fromkeys(
        ("identity.build", "device.ready"), "cpu-build-of-torch-installed"
    )
    assert set(blocked) == {"note"}


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("fused.atention", "no such check: fused.atention"),
        ("transfer", "transfer.speed (only for targets with a GPU)"),
    ],
)
def test_a_check_that_cannot_be_run_is_not_green(
    suite: Suite, only: str, words: str
) -> None:
    done, _ = suite("--full", "--only", only)
    assert done.returncode == 3
    assert words in done.stderr


def test_a_bad_expectation_is_told_at_once(suite: Suite) -> None:
    done, report = suite(accelerator="tpu", rotary=["sideways"])
    assert (done.returncode, report) == (2, None)
    assert "accelerator: 'tpu'" in done.stderr
    assert "rotary: ['sideways']" in done.stderr


def test_a_switch_takes_no_value(suite: Suite) -> None:
    """The trap of argparse's type=bool, for which the text False is true, stays shut."""
    done, report = suite("--full", "False")
    assert (done.returncode, report) == (2, None)


VOCABULARY = '''
from smoke.engine.check import check
from smoke.engine.finding import fail


def absent(device) -> str:
    return f"{device} has no wings"


def broken(device) -> str:
    raise RuntimeError("the probe itself fails")


@check("extra.excused", stands_for="s", needs=(absent,))
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


@pytest.fixture
def extra(python: Path, sound: Path, tmp_path: Path) -> Suite:
    """Run the checks of another file in a copy of the suite, where the caller sets traps."""
    # Neither pytest's variables nor a configuration in the working directory may matter.
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise SystemExit('from the caller')\n")
    env = clean_environment(
        extra={"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "nowhere"}
    )
    copy = tmp_path / "smoke"
    shutil.copytree(SUITE.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "checks" / "test_extra.py").write_text(VOCABULARY)
    report = tmp_path / "report.json"

    def start(*words: str) -> tuple[Completed, Any]:
        argv = [python, "-I", copy / "run.py", sound, report, *words]
        done = run(argv, env=env, cwd=tmp_path, timeout=120)
        return done, json.loads(report.read_text(encoding="utf-8"))

    return start


def test_what_a_device_lacks_excuses_a_check_and_nothing_else_does(
    extra: Suite, tmp_path: Path
) -> None:
    done, report = extra("--only", "extra")
    assert done.returncode == 1, done.stderr
    outcomes = {check["id"]: check["outcome"] for check in report["checks"]}
    assert outcomes == {
        "identity.import": "passed",
        "extra.not_excused": "failed",
        "extra.advisory": "warned",
        "extra.skips": "failed",
    }
    (excused,) = [
        entry for entry in report["not_run"] if entry["id"] == "extra.excused"
    ]
    assert (excused["owed"], excused["reason"]) == (False, "cpu has no wings")
    # No bytecode is left in the suite.
    assert not list((tmp_path / "smoke").rglob("*.pyc"))


def test_a_warning_is_green(extra: Suite) -> None:
    done, report = extra("--only", "extra.advisory")
    assert done.returncode == 0, done.stderr
    *_, warned = report["checks"]
    assert (warned["outcome"], warned["finding"]["level"]) == ("warned", "warning")


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
