"""A worker that dies or hangs: the supervisor reports the check that it was running."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.smoke.conftest import failures
from tests.smoke.faults import FAULTS, Fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# One that dies, and one import that ends it; `profiles` has the others. What hangs is judged by
# `test_patience`.
FAST = (
    "the_driver_crashes_the_process",
    "a_mismatched_ipex_that_ends_at_once_with_127",
)
SUPERVISED = [
    pytest.param(
        fault,
        id=fault.name,
        marks=() if fault.name in FAST else pytest.mark.profiles,
    )
    for fault in FAULTS
    if fault.world == "process"
]


@pytest.mark.machine
@pytest.mark.parametrize("fault", SUPERVISED)
def test_a_process_that_dies_or_hangs_is_a_finding(
    fault: Fault, harness: Callable[..., None], sound: Path, tmp_path: Path
) -> None:
    data = json.loads(sound.read_text(encoding="utf-8"))
    packages = data["packages"] | fault.expect.get("packages", {})
    expect, report = tmp_path / "expect.json", tmp_path / "report.json"
    expect.write_text(
        json.dumps(data | fault.expect | {"packages": packages}), encoding="utf-8"
    )
    ends_with = 1 if fault.code else 0
    harness(
        "--supervise",
        fault.name,
        expect,
        report,
        *fault.arguments,
        ends_with=ends_with,
    )
    document = json.loads(report.read_text(encoding="utf-8"))
    checks = document["checks"]
    assert failures(checks) == ([(fault.check, fault.code)] if fault.code else [])
    assert all(check["finding"]["evidence"] for check in checks if check["finding"])
    if "all" in fault.arguments:
        both_devices_are_in(document)


def both_devices_are_in(report: dict[str, Any]) -> None:
    """Fail unless the first device is ready, and the second is broken or not meant."""
    ready = {check["id"]: check for check in report["checks"] if "ready" in check["id"]}
    left_out = [entry for entry in report["not_run"] if entry["id"] == "device.ready@1"]
    assert ready.pop("device.ready")["outcome"] == "passed"
    assert [device["index"] for device in report["devices"]] == [0]
    assert report["device"] == report["devices"][0]
    for check in ready.values():
        assert "on device 1" in check["finding"]["evidence"]
    for entry in left_out:
        assert not entry["owed"]
        assert "xe-lp" in entry["reason"]
    assert len(ready) + len(left_out) == 1
