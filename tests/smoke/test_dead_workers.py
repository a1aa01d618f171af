"""A worker that dies or hangs: the supervisor reports the check that it was running."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

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
    expect.write_text(json.dumps(data | fault.expect | {"packages": packages}), encoding="utf-8")
    harness("--supervise", fault.name, expect, report, *fault.arguments, ends_with=1)
    found = json.loads(report.read_text(encoding="utf-8"))["checks"]
    assert failures(found) == [(fault.check, fault.code)]
    assert all(each["finding"]["evidence"] for each in found if each["finding"])
