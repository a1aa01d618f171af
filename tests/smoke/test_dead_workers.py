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


@pytest.mark.machine
@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f.world == "process"], ids=lambda fault: fault.name
)
def test_a_process_that_dies_or_hangs_is_a_finding(
    fault: Fault, harness: Callable[..., None], sound: Path, tmp_path: Path
) -> None:
    data = json.loads(sound.read_text(encoding="utf-8"))
    packages = data["packages"] | fault.expect.get("packages", {})
    expect, report = tmp_path / "expect.json", tmp_path / "report.json"
    expect.write_text(
        json.dumps(data | fault.expect | {"packages": packages}), encoding="utf-8"
    )
    harness(
        "--supervise",
        fault.name,
        expect,
        report,
        *fault.arguments,
        ends_with=int(bool(fault.code)),
    )
    document = json.loads(report.read_text(encoding="utf-8"))
    found = document["checks"]
    assert failures(found) == ([(fault.check, fault.code)] if fault.code else [])
    assert all(each["finding"]["evidence"] for each in found if each["finding"])
    if "all" in fault.arguments:
        _both_devices_are_in(document, fault)


def _both_devices_are_in(report: dict[str, Any], fault: Fault) -> None:
    ready = {
        each["id"]: each["outcome"]
        for each in report["checks"]
        if "ready" in each["id"]
    }
    excused = {
        each["id"]: each for each in report["not_run"] if each["id"] == "device.ready@1"
    }
    assert {*ready, *excused} == {"device.ready", "device.ready@1"}
    for each in excused.values():
        assert not each["owed"]
        assert "xe-lp" in each["reason"]
    works = [int("@" in name) for name, outcome in ready.items() if outcome == "passed"]
    assert [device["index"] for device in report["devices"]] == sorted(works)
    assert report["device"] == (report["devices"][0] if 0 in works else {})
    broken = [each["finding"] for each in report["checks"] if each["finding"]]
    if fault.check == "device.ready@1" and fault.code == "op-fails":
        assert "on device 1" in broken[0]["evidence"]
