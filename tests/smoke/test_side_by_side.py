"""Several devices are checked at once: one that hangs holds no other, and each is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands.suite import ONLY
from smoke.engine import side_by_side
from smoke.engine.journal import Journal
from tests.smoke.conftest import failures
from tests.smoke.faults import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BY_NAME = {fault.name: fault for fault in FAULTS}
GIB = 2**30
# Checks that a gate runs on each device of a machine, whose numbers nobody knows to be wrong.
CHECKS = ("ready", "matmul", "family")


@pytest.fixture
def checked(harness: Callable[..., None], base: dict[str, Any], tmp_path: Path) -> Any:
    """Run some checks on several devices under a fault; return report and journal."""

    def start(name: str, *only: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        fault = BY_NAME[name]
        expect, report = tmp_path / "expect.json", tmp_path / "report.json"
        expect.write_text(json.dumps(base | fault.expect), encoding="utf-8")
        words = ["--supervise", name, expect, report, *fault.arguments]
        words += ["--journal", tmp_path / "journal"]
        for each in only:
            words += ["--only", each]
        harness(*words, ends_with=1 if fault.code else 0)
        document = json.loads(report.read_text(encoding="utf-8"))
        return document, Journal(tmp_path / "journal").events()

    return start


@pytest.mark.machine
def test_a_device_that_hangs_holds_no_other_and_is_named(checked: Any) -> None:
    report, events = checked(
        "the_second_of_three_devices_does_not_answer", "device.ready"
    )
    assert failures(report["checks"]) == [("device.ready@1", "probe-hung")]
    ended = [event["result"]["id"] for event in events if "result" in event]
    ids = ["identity.import", "device.ready", "device.ready@1", "device.ready@2"]
    assert [check["id"] for check in report["checks"]] == ids
    if side_by_side.at_once() > 1:
        assert ended == [*ids[:2], ids[3], ids[2]]
    assert [device["index"] for device in report["devices"]] == [0, 2]


@pytest.mark.machine
@pytest.mark.slow
def test_the_gate_of_eight_devices(checked: Any) -> None:
    before = side_by_side.at_once()
    report, events = checked("eight_devices_are_healthy", *ONLY["gate"])
    for name, code in failures(report["checks"]):
        # The speed of a pretend device is that of busy cores.
        assert name.partition("@")[0] in {"transfer.speed", "health.bandwidth"}
        assert code == "slow"
    assert [device["index"] for device in report["devices"]] == [*range(8)]
    names = [check["id"] for check in report["checks"]]
    for index in range(1, 8):
        for check in CHECKS:
            assert f"device.{check}@{index}" in names
    # Of one device after the other, although they ended otherwise.
    places = [int(name.partition("@")[2] or 0) for name in names]
    assert places == sorted(places)
    working = most = 0
    for event in events:
        working += "start" in event
        working -= "result" in event or "excused" in event
        most = max(most, working)
    after = side_by_side.at_once()  # the memory that is free can be another
    # No fewer is asserted: two workers may never compute at once, of which one still loads torch.
    assert most <= max(before, after)


@pytest.mark.parametrize(
    ("cores", "files", "devices"),
    [
        (128, {}, 8),
        (4, {}, 4),
        (128, {"proc/meminfo": f"MemTotal: 9 kB\nMemAvailable: {6 * 2**20} kB\n"}, 3),
        (128, {"sys/fs/cgroup/memory.max": "max\n"}, 8),
        (
            128,
            {
                "sys/fs/cgroup/memory.max": f"{16 * GIB}\n",
                "sys/fs/cgroup/memory.current": f"{11 * GIB}\n",
            },
            2,
        ),
        (
            128,
            {
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
            },
            1,
        ),
    ],
)
def test_as_many_as_cores_and_memory_allow(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    files: dict[str, str],
    devices: int,
) -> None:
    monkeypatch.setattr(side_by_side, "cores", lambda: cores)
    monkeypatch.setattr(side_by_side.sys, "platform", "linux")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    assert side_by_side.at_once(tmp_path) == devices


def test_nothing_is_side_by_side_where_a_journal_has_one_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side_by_side.sys, "platform", "win32")
    assert side_by_side.at_once() == 1


def test_the_journal_tells_the_workers_of_devices_apart(tmp_path: Path) -> None:
    first, other = Journal(tmp_path / "journal"), Journal(tmp_path / "journal", 3)
    first.write(start={"id": "device.ready"})
    other.write(start={"id": "device.ready@3"})
    other.write(step="first operation")
    other.write(broken="no pytest")
    first.write(result={"id": "device.ready"})
    assert first.running() is None
    running = other.running()
    assert running
    assert running.check["id"] == "device.ready@3"
    assert running.step == "first operation"
    assert first.last("broken") is None
    before = first.latest()
    other.write(step="the next operation")
    assert first.latest() == before
    assert first.ended() == other.ended() == {"device.ready"}
