"""What an upgrade did: the host first, then what broke, vanished, slowed or healed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from provision.core.findings import Finding, Level
from provision.report.model import Report, comparable
from provision.report.regressions import changed_layers, compare_reports

IDS = ("device.matmul", "throughput.training")
STACK = {"kernel": "6.1", "driver xe": "6.1", "compute-runtime": "25.18"}


def report(
    failed: tuple[str, ...] = (),
    *,
    warned: tuple[str, ...] = (),
    not_run: tuple[dict[str, Any], ...] = (),
    speed: float = 1600.0,
    spread: float = 40.0,
    ids: tuple[str, ...] = IDS,
    stack: dict[str, str] = STACK,
    lock: str | None = "a" * 64,
    suite: str = "full",
    day: int = 1,
    device: str | None = "Arc A770",
    numbers: dict[str, dict[str, Any]] | None = None,
    seconds: float = 1.0,
    asked: str = "",
    devices: tuple[dict[str, Any], ...] = (),
) -> Report:
    rate = {"throughput": {"value": speed, "unit": "images/s", "spread": spread}}
    checks: list[dict[str, Any]] = [
        {
            "id": name,
            "outcome": "failed"
            if name in failed
            else "warned"
            if name in warned
            else "passed",
            "title": f"{name} is right",
            "stands_for": "a failure",
            "seconds": seconds,
            "numbers": numbers or rate,
            "finding": {
                "code": "op-fails",
                "level": "error" if name in failed else "warning",
                "symptom": f"{name} raises",
                "cause": "c",
                "remedy": "r",
                "evidence": ["e"],
            }
            if name in (*failed, *warned)
            else None,
        }
        for name in ids
    ]
    return Report.model_validate(
        {
            "schema_version": 1,
            "suite": suite,
            "target": "arc-linux",
            "python": "3.11.7",
            "torch": "2.9.1+xpu",
            "device": {"name": device, "driver": "25.18"} if device else {},
            "started": f"2026-01-{day:02}T00:00:00Z",
            "seconds": 9.0,
            "checks": checks,
            "stack": stack,
            "lock": lock,
            "not_run": not_run,
            "asked": asked,
            "devices": devices,
        }
    )


def codes(*reports: Report) -> list[str]:
    return [
        finding.code for finding in compare_reports(reports[:-1], reports[-1]).findings
    ]


def only(*reports: Report) -> Finding:
    (finding,) = compare_reports(reports[:-1], reports[-1]).findings
    return finding


TWINS = tuple({"name": "H100", "index": index} for index in (0, 1))


def of_one(number: int, *failed: str, day: int) -> Report:
    ids = tuple(
        f"device.{name}" + f"@{number}" * bool(number) for name in ("ready", "matmul")
    )
    return report(
        failed,
        ids=("identity.versions", *ids),
        suite="quick",
        asked=str(number),
        device="H100",
        devices=(TWINS[number],),
        day=day,
    )


def test_devices_that_are_checked_by_turns_are_not_compared_with_each_other() -> None:
    by_turns = [of_one(number, day=day) for day, number in enumerate((0, 1, 0, 1), 1)]
    for after in (of_one(0, day=9), of_one(1, day=9)):
        before = comparable(by_turns, after)
        assert {old.asked for old in before} == {after.asked}
        assert codes(*before, after) == []


def test_the_history_of_a_device_goes_on_where_all_are_checked() -> None:
    ids = ("device.matmul", "device.matmul@1")
    every = report(ids=ids, asked="all", device="H100", devices=TWINS)
    one = report(
        ("device.matmul@1",), ids=ids[1:], asked="1", device="H100", devices=TWINS[1:]
    )
    assert comparable([every], one) == [every]
    assert codes(every, one) == ["check-broke"]
    # A device that is gone is told where the same was asked before, and there alone.
    alone = report(ids=ids[:1], asked="all", device="H100", devices=TWINS[:1])
    assert codes(every, alone) == ["check-vanished"]
    assert codes(every, alone.model_copy(update={"asked": "0"})) == []


def test_reports_of_earlier_versions_are_told_apart_by_their_devices() -> None:
    old = [of_one(number, day=1).model_copy(update={"asked": ""}) for number in (0, 1)]
    assert comparable(old, of_one(0, day=2)) == old[:1]


def test_nothing_changed_is_no_finding() -> None:
    result = compare_reports([report()], report())
    assert (result.moves, result.findings, result.bad) == ((), (), False)
    assert (result.compared, result.new) == (
        ("device.matmul", "throughput.training"),
        (),
    )


def test_the_layer_that_changed_is_named_first_and_is_the_cause() -> None:
    after = report(
        failed=("device.matmul",), stack=STACK | {"compute-runtime": "24.39"}
    )
    result = compare_reports([report()], after)
    assert [str(move) for move in result.moves] == ["compute-runtime: 25.18 -> 24.39"]
    (finding,) = result.findings
    assert finding.code == "check-broke"
    assert finding.cause == "compute-runtime: 25.18 -> 24.39"
    assert finding.evidence == ("device.matmul raises",)


def test_a_break_without_a_change_says_so() -> None:
    assert (
        "nothing that is recorded changed"
        in only(report(), report(failed=IDS[:1])).cause
    )


def test_a_break_in_the_second_run_after_a_change_names_that_change() -> None:
    newer = STACK | {"kernel": "6.2"}
    finding = only(
        report(), report(stack=newer, day=2), report(IDS[:1], stack=newer, day=3)
    )
    assert finding.code == "check-broke"
    assert "the last change, 2026-01-02T00:00:00Z: kernel: 6.1 -> 6.2" in finding.cause


def test_errors_of_another_version_of_the_suite_are_no_standard() -> None:
    def of(files: str, error: float, day: int) -> Report:
        numbers = {"error": {"value": error, "unit": "1", "limit": 1e-5}}
        return report(numbers=numbers, day=day).model_copy(update={"files": files})

    assert codes(of("a", 1e-7, 1), of("a", 5e-7, 2)) == ["accuracy-lost"] * 2
    assert codes(of("a", 1e-7, 1), of("b", 5e-7, 2)) == []
    assert (
        codes(of("a", 1e-7, 1), of("b", 1e-7, 2), of("b", 5e-7, 3))
        == ["accuracy-lost"] * 2
    )
    assert (
        codes(report(), report(speed=800, day=2).model_copy(update={"files": "b"}))
        == ["slowed"] * 2
    )


def test_layers_come_go_and_the_lock_changes() -> None:
    now = {"kernel": "6.1", "driver xe": "6.2", "CUDA driver library": "580.65"}
    found = {str(move) for move in changed_layers(report(), now, "b" * 64)}
    assert found == {
        "driver xe: 6.1 -> 6.2",
        "compute-runtime: 25.18 -> absent",
        "CUDA driver library: absent -> 580.65",
        f"lock: {'a' * 16} -> {'b' * 16}",
    }


def test_a_check_that_vanished_is_bad_once_and_stays_visible() -> None:
    less = {"ids": ("device.matmul",)}
    result = compare_reports([report()], report(**less, day=2))
    assert [finding.code for finding in result.findings] == ["check-vanished"]
    assert result.bad
    finding = only(report(), report(**less, day=2), report(**less, day=3))
    assert (finding.code, finding.level) == ("check-vanished", Level.NOTE)


def test_the_quick_suite_after_the_full_one_has_lost_no_check() -> None:
    quick = report(ids=("device.matmul",), suite="quick", day=2)
    assert codes(report(), quick) == []


def test_a_check_without_an_earlier_result_is_not_called_as_good() -> None:
    result = compare_reports([report(ids=("device.matmul",))], report())
    assert (result.compared, result.new) == (
        ("device.matmul",),
        ("throughput.training",),
    )


def test_a_healed_check_is_a_note() -> None:
    result = compare_reports([report(failed=("device.matmul",))], report())
    (finding,) = result.findings
    assert (finding.code, finding.level) == ("check-healed", Level.NOTE)
    assert not result.bad


def test_a_check_that_warns_now_is_worse_than_it_was_and_no_failure() -> None:
    slow = {"warned": ("throughput.training",)}
    finding = only(report(), report(**slow, day=2))
    assert (finding.code, finding.level) == ("check-warns", Level.WARNING)
    assert codes(report(), report(**slow, day=2), report(**slow, day=3)) == []


def test_a_card_that_always_warns_is_compared_all_the_same() -> None:
    slow: dict[str, Any] = {
        "warned": ("throughput.training",),
        "ids": ("throughput.training",),
    }
    earlier = [report(**slow, day=1 + number) for number in range(6)]
    assert codes(*earlier, report(**slow, speed=700.0, day=8)) == ["slowed"]


def test_a_check_that_is_not_run_any_more_says_why() -> None:
    gone = {
        "id": "throughput.training",
        "title": "t",
        "owed": False,
        "reason": "no C compiler",
    }
    finding = only(report(), report(ids=IDS[:1], not_run=(gone,), day=2))
    assert finding.code == "check-vanished"
    assert finding.symptom == "throughput.training is not run any more: no C compiler"


def test_a_lasting_failure_blinds_nothing_and_says_since_when() -> None:
    red = ("device.matmul",)
    history = [report(), *(report(failed=red, day=day) for day in (2, 3, 4))]
    result = compare_reports(history, report(failed=red, speed=700.0, day=5))
    slowed, still = result.findings
    assert slowed.symptom == "throughput.training: throughput fell to 44%"
    assert still.code == "check-still-failing"
    assert still.symptom == "device.matmul is still failing, since 2026-01-02T00:00:00Z"
    assert still.remedy == "r"


def test_a_failure_since_the_first_report_is_compared_all_the_same() -> None:
    red = ("device.matmul",)
    result = compare_reports(
        [report(failed=red)], report(failed=red, speed=700.0, day=2)
    )
    assert [finding.code for finding in result.findings] == [
        "slowed",
        "check-still-failing",
    ]
    assert "the first report" in result.findings[1].symptom


def test_a_lasting_failure_names_what_changed_when_it_began() -> None:
    newer, newest = STACK | {"kernel": "6.2"}, STACK | {"kernel": "6.3"}
    red = ("device.matmul",)
    history = [report(), report(failed=red, stack=newer, day=2)]
    assert (
        only(*history, report(failed=red, stack=newest, day=3)).cause
        == "kernel: 6.1 -> 6.2"
    )


def test_blocked_checks_are_one_note() -> None:
    after = report(failed=IDS)
    broken, blocked = after.checks
    assert blocked.finding is not None
    note = replace(blocked.finding, level=Level.NOTE)
    checks = (broken, blocked.model_copy(update={"finding": note}))
    result = compare_reports([report()], after.model_copy(update={"checks": checks}))
    assert [finding.code for finding in result.findings] == [
        "check-broke",
        "checks-blocked",
    ]


def test_another_device_or_target_is_not_compared() -> None:
    other = report(device="Arc B580")
    unknown = report(device=None)  # the driver that names it may be what broke
    assert comparable([report(), other, unknown], report()) == [report(), unknown]
    assert comparable([report(), other], unknown) == [report(), other]
    foreign = report().model_copy(update={"target": "max-linux"})
    assert comparable([foreign], report()) == []


@pytest.mark.parametrize(
    ("speed", "slowed"), [(1590.0, 0), (1400.0, 0), (1200.0, 2), (213.0, 2)]
)
def test_slower_beyond_noise_and_tolerance(speed: float, slowed: int) -> None:
    assert codes(report(), report(speed=speed)).count("slowed") == slowed


def test_within_a_wide_spread_nothing_slowed() -> None:
    assert codes(report(spread=500.0), report(speed=1200.0, spread=500.0)) == []


def test_faster_is_no_finding() -> None:
    assert codes(report(speed=213.0), report(speed=1600.0)) == []


def test_rates_of_the_other_suite_are_not_compared() -> None:
    assert codes(report(suite="full"), report(suite="quick", speed=400.0)) == []


def test_a_slowdown_says_since_when_and_what_changed_then() -> None:
    newer = STACK | {"driver xe": "6.2"}
    history = [report(), report(day=2), report(stack=newer, speed=900.0, day=3)]
    finding = compare_reports(
        history, report(stack=newer, speed=900.0, day=4)
    ).findings[0]
    assert "fell to 56%, since 2026-01-03" in finding.symptom
    assert finding.cause == "driver xe: 6.1 -> 6.2"
    assert finding.evidence == (
        "1600 images/s (best quarter of 3 runs) -> 900 images/s; down to 85% is noise on this host",
    )


def test_on_a_busy_host_a_slowdown_is_a_note() -> None:
    def measured(speed: float, share: float) -> Report:
        return report(
            numbers={
                "throughput": {
                    "value": speed,
                    "unit": "images/s",
                    "rounds": [speed] * 15,
                },
                "CPU share": {"value": share, "unit": "1"},
            }
        )

    history = [measured(1600.0, 2.0), measured(1610.0, 2.0)]
    result = compare_reports(history, measured(400.0, 1.0))
    assert {finding.code for finding in result.findings} == {"not-judged"}
    assert not result.bad
    assert set(codes(*history, measured(400.0, 2.0))) == {"slowed"}


def test_an_error_that_grows_is_told_long_before_its_limit() -> None:
    def off(error: float) -> Report:
        return report(numbers={"float16": {"value": error, "unit": "1", "limit": 4e-3}})

    finding = compare_reports([off(3.2e-5)], off(3.84e-4)).findings[0]
    assert (finding.code, finding.level) == ("accuracy-lost", Level.ERROR)
    assert (
        finding.symptom == "device.matmul: float16 grew to 9.6 times"
    )  # 1 % of the limit is 0
    assert "the limit is 0.004" in finding.evidence[0]
    assert codes(off(3.2e-5), off(6e-5)) == []
    assert codes(off(1e-9), off(1e-6)) == []


@pytest.mark.parametrize(
    ("number", "before", "after", "code"),
    [
        ({"unit": "s"}, ("import", 2.0), 60.0, "takes-longer"),
        ({"unit": "GiB"}, ("memory", 15.9), 12.0, "less-memory"),
        ({"unit": "count"}, ("count", 2), 1, "fewer-devices"),
    ],
)
def test_import_memory_and_devices_are_compared(
    number: dict[str, str], before: tuple[str, float], after: float, code: str
) -> None:
    name, value = before

    def having(now: float) -> Report:
        return report(ids=IDS[:1], numbers={name: {"value": now, **number}})

    assert codes(having(value), having(after)) == [code]
    assert codes(having(value), having(value)) == []
    assert codes(having(after), having(value)) == []


def test_a_device_that_comes_and_goes_is_no_noise() -> None:
    history = [
        report(ids=IDS[:1], numbers={"count": {"value": count, "unit": "count"}})
        for count in (2, 1, 2, 1, 2, 1, 2, 1)
    ]
    assert codes(*history) == ["fewer-devices"]


def test_a_check_that_takes_ten_times_as_long_is_a_warning() -> None:
    finding = only(report(ids=IDS[:1], seconds=2.0), report(ids=IDS[:1], seconds=20.0))
    assert (finding.code, finding.level) == ("takes-longer", Level.WARNING)
    assert codes(report(seconds=0.002), report(seconds=0.02)) == []


def test_the_same_machine_a_hundred_times_gives_at_most_one_finding() -> None:
    chance = random.Random(7)
    history = [
        report(speed=chance.gauss(1600, 80), spread=300, ids=IDS[1:])
        for _ in range(100)
    ]
    assert sum(len(codes(*history[: at + 1])) for at in range(1, 100)) <= 1
