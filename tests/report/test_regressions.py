"""What an upgrade did: the host first, then what broke, vanished, slowed or healed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from provision.core.findings import Level
from provision.report.model import Report
from provision.report.regressions import changed_layers, compare_reports

STACK = {"kernel": "6.1", "driver xe": "6.1", "compute-runtime": "25.18"}


def report(
    *,
    speed: float = 1600.0,
    spread: float = 40.0,
    failed: tuple[str, ...] = (),
    ids: tuple[str, ...] = ("device.matmul", "throughput.training"),
    stack: dict[str, str] = STACK,
    lock: str | None = "a" * 64,
) -> Report:
    checks: list[dict[str, Any]] = [
        {
            "id": name,
            "outcome": "failed" if name in failed else "passed",
            "title": f"{name} is right",
            "stands_for": "a failure",
            "seconds": 1.0,
            "numbers": {"throughput": {"value": speed, "unit": "images/s", "spread": spread}},
            "finding": {
                "code": "op-fails", "level": "error", "symptom": f"{name} raises", "cause": "c",
                "remedy": "r", "evidence": ["e"],
            } if name in failed else None,
        }
        for name in ids
    ]  # fmt: skip
    return Report.model_validate({
        "schema_version": 1, "suite": "full", "target": "arc-linux", "python": "3.11.7",
        "torch": "2.9.1+xpu", "device": {"name": "Arc A770", "driver": "25.18"},
        "started": "2026-01-01T00:00:00Z", "seconds": 9.0, "checks": checks, "stack": stack,
        "lock": lock,
    })  # fmt: skip


def codes(before: Report, after: Report) -> list[str]:
    return [finding.code for finding in compare_reports(before, after).findings]


def test_nothing_changed_is_no_finding() -> None:
    result = compare_reports(report(), report())
    assert (result.moves, result.findings, result.bad) == ((), (), False)


def test_the_layer_that_moved_is_named_first_and_is_the_cause() -> None:
    after = report(failed=("device.matmul",), stack=STACK | {"compute-runtime": "24.39"})
    result = compare_reports(report(), after)
    assert [str(move) for move in result.moves] == ["compute-runtime: 25.18 -> 24.39"]
    (finding,) = result.findings
    assert finding.code == "check-broke"
    assert finding.cause == "compute-runtime: 25.18 -> 24.39"
    assert finding.evidence == ("device.matmul raises",)


def test_a_break_without_a_move_says_that_nothing_moved() -> None:
    (finding,) = compare_reports(report(), report(failed=("device.matmul",))).findings
    assert "nothing that is recorded changed" in finding.cause


def test_layers_come_go_and_the_lock_moves() -> None:
    now = {"kernel": "6.1", "driver xe": "6.2", "CUDA driver library": "580.65"}
    found = {str(move) for move in changed_layers(report(), now, "b" * 64)}
    assert found == {
        "driver xe: 6.1 -> 6.2",
        "compute-runtime: 25.18 -> absent",
        "CUDA driver library: absent -> 580.65",
        f"lock: {'a' * 16} -> {'b' * 16}",
    }


def test_a_check_that_vanished_is_bad() -> None:
    result = compare_reports(report(), report(ids=("device.matmul",)))
    assert [finding.code for finding in result.findings] == ["check-vanished"]
    assert result.bad


def test_a_healed_check_is_a_note() -> None:
    result = compare_reports(report(failed=("device.matmul",)), report())
    (finding,) = result.findings
    assert (finding.code, finding.level) == ("check-healed", Level.NOTE)
    assert not result.bad


@pytest.mark.parametrize(("speed", "slowed"), [(1590.0, 0), (1250.0, 0), (1100.0, 2), (213.0, 2)])
def test_slower_beyond_noise_and_tolerance(speed: float, slowed: int) -> None:
    assert codes(report(), report(speed=speed)).count("slowed") == slowed


def test_within_a_wide_spread_nothing_slowed() -> None:
    assert codes(report(spread=500.0), report(speed=1000.0, spread=500.0)) == []


def test_faster_is_no_finding() -> None:
    assert codes(report(speed=213.0), report(speed=1600.0)) == []


def test_the_same_machine_twenty_times_gives_no_finding() -> None:
    chance = random.Random(7)
    for _ in range(20):
        one, two = (report(speed=chance.gauss(1600, 60), spread=150) for _ in range(2))
        assert codes(one, two) == []
