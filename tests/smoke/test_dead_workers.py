"""A worker that dies, hangs or leaves: the supervisor reports what it was running, and what is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from smoke import run
from tests.smoke.conftest import failures
from tests.smoke.faults import FAULTS, MISMATCH, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.machine
# It says what it does in the journal, as the real worker does, and nothing once that has ended.
WORKER = f"""
import ctypes, json, os, sys, time
from pathlib import Path
sys.path.append({str(Path(__file__).parents[2])!r})
from smoke.engine.check import IMPORT
from smoke.engine.journal import Journal
journal = Journal(Path(json.loads(sys.argv[1])["journal"]))
result = dict(IMPORT, outcome="passed", seconds=1.0, numbers={{}}, finding=None)
if journal.ended():
    sys.exit(0)
"""
DURING = "journal.write(start=IMPORT)\n"
# What the worker does -> findings, required checks without a result, exit code.
ENDS: dict[str, tuple[list[str], list[str], int]] = {
    f"{DURING}ctypes.string_at(0)": (["process-died"], ["device.ready"], 1),
    f"{DURING}time.sleep(60)": (["probe-hung"], ["device.ready"], 1),
    # IPEX prints to stdout why, and then ends the process.
    f"{DURING}{MISMATCH}sys.stdout.flush(); os._exit(127)": (
        ["ipex-torch-version-mismatch"],
        ["device.ready"],
        1,
    ),
    "os._exit(0)": ([], ["device.ready"], 3),
    "journal.write(result=result); os._exit(0)": ([], ["device.ready"], 3),
    "journal.write(result=result); os._exit(9)": ([], ["device.ready"], 3),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_that_ends_early_is_no_success(
    end: str, sound: Path, tmp_path: Path
) -> None:
    codes, required, exit_code = ENDS[end]
    worker, report = tmp_path / "worker.py", tmp_path / "report.json"
    worker.write_text(WORKER + end, encoding="utf-8")
    argv = [str(sound), str(report), "--limit", "3"]
    argv += ["--only", "identity.import", "--only", "device.ready"]
    assert run.main(argv, worker=worker) == exit_code
    document = json.loads(report.read_text(encoding="utf-8"))
    assert failures(document["checks"]) == [("identity.import", c) for c in codes]
    not_run = [entry["id"] for entry in document["not_run"] if entry["required"]]
    assert not_run == required
    every_finding_has_evidence(document)


def test_no_worker_follows_one_that_died_with_the_last_check(
    sound: Path, tmp_path: Path
) -> None:
    """It would import torch, which takes seconds, and find nothing to do."""
    worker, report = tmp_path / "worker.py", tmp_path / "report.json"
    starts = f"Path({str(tmp_path / 'starts')!r}).open('a').write('x')\n"
    alone = "journal.write(required=[IMPORT])\n"
    worker.write_text(
        WORKER.replace("if journal", f"{starts}if journal") + alone + DURING
    )
    argv = [str(sound), str(report), "--only", "identity.import"]
    assert run.main(argv, worker=worker) == 1
    assert (tmp_path / "starts").read_text() == "x"
    (check,) = json.loads(report.read_text(encoding="utf-8"))["checks"]
    assert check["finding"]["code"] == "process-died"


def every_finding_has_evidence(report: dict[str, Any]) -> None:
    for check in report["checks"]:
        if check["finding"]:
            assert check["finding"]["evidence"]


SUPERVISED = [fault for fault in FAULTS if fault.world == "process"]


@pytest.mark.profiles
@pytest.mark.parametrize("fault", SUPERVISED, ids=lambda fault: fault.name)
def test_a_process_that_dies_or_hangs_is_a_finding(
    fault: Fault, harness: Callable[..., None], base: dict[str, Any], tmp_path: Path
) -> None:
    expect, report = tmp_path / "expect.json", tmp_path / "report.json"
    changed = base | fault.expect
    changed["packages"] = base["packages"] | fault.expect.get("packages", {})
    expect.write_text(json.dumps(changed), encoding="utf-8")
    words = ("--supervise", fault.name, expect, report, *fault.arguments)
    harness(*words, ends_with=1 if fault.code else 0)
    document = json.loads(report.read_text(encoding="utf-8"))
    expected = [(fault.check, fault.code)] if fault.code else []
    assert failures(document["checks"]) == expected
    every_finding_has_evidence(document)
    if "all" in fault.arguments:
        both_devices_are_in(document)


def both_devices_are_in(report: dict[str, Any]) -> None:
    """Fail unless the first device is ready, and the second is broken or not meant."""
    ready = [check for check in report["checks"] if "ready" in check["id"]]
    left_out = [entry for entry in report["not_run"] if entry["id"] == "device.ready@1"]
    (first,) = [check for check in ready if check["id"] == "device.ready"]
    assert first["outcome"] == "passed"
    (device,) = report["devices"]
    assert device["index"] == 0
    assert report["device"] == device
    ready.remove(first)
    for check in ready:
        assert "on device 1" in check["finding"]["evidence"]
    for entry in left_out:
        assert not entry["required"]
        assert "xe-lp" in entry["reason"]
    assert len(ready) + len(left_out) == 1
