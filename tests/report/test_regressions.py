"""How a run stands beside the earlier ones: what broke, vanished or healed; and the speed apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from provision.core.findings import Finding, Level
from provision.report.layers import changed_layers
from provision.report.model import Report, comparable
from provision.report.regressions import Comparison, compare_reports
from provision.report.trend import FEWEST

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
    asked: str = "",
    devices: tuple[dict[str, Any], ...] = (),
    **more: object,
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
            "seconds": 1.0,
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
        | more
    )


def compared(*reports: Report) -> Comparison:
    return compare_reports(reports[:-1], reports[-1])


def codes(*reports: Report) -> list[str]:
    return [finding.code for finding in compared(*reports).findings]


def only(*reports: Report) -> Finding:
    (finding,) = compared(*reports).findings
    return finding


def steady(count: int = FEWEST, **parts: Any) -> list[Report]:  # noqa: ANN401
    """Return as many runs of a host whose speed hardly differs."""
    rates = (1600.0 + number % 3 for number in range(count))
    days = range(1, count + 1)
    return [
        slow(rate, **{"day": day} | parts)
        for day, rate in zip(days, rates, strict=True)
    ]


def slow(speed: float = 700.0, **parts: Any) -> Report:  # noqa: ANN401
    usual: dict[str, Any] = {"ids": IDS[1:], "speed": speed, "day": 20}
    return report(**usual | parts)


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


def test_slower_is_said_only_after_eight_runs_and_before_that_how_many_there_are() -> (
    None
):
    for count in range(1, FEWEST + 1):
        result = compared(*steady(count), slow())
        (speed,) = result.speeds
        judged = count == FEWEST
        assert speed.runs == count
        assert speed.not_judged == ("" if judged else f"{count} of 8 runs")
        assert (speed.suspect, result.slower) == (judged, judged)
        assert result.word == ("slower" if judged else "passed")
        assert result.suspects == ({IDS[1]} if judged else set())


def test_slower_is_a_warning_and_not_worse() -> None:
    result = compared(*steady(), slow())
    (finding,) = result.findings
    assert (finding.code, finding.level) == ("slowed", Level.WARNING)
    assert (result.slower, result.worse) == (True, False)
    red = compared(*steady(ids=IDS), slow(ids=IDS, failed=IDS[:1]))
    assert (red.slower, red.word) == (True, "worse")


def test_only_a_speed_well_below_the_median_is_slower() -> None:
    for speed, word in (
        *((213.0, "slower"), (1200.0, "slower"), (1400.0, "passed")),
        *((1590.0, "passed"), (9000.0, "passed")),
    ):
        assert compared(*steady(), slow(speed)).word == word


def test_a_speed_that_was_measured_twice_says_so() -> None:
    rate = {"value": 900.0, "again": 850.0, "unit": "images/s"}
    finding = only(*steady(), slow(numbers={"throughput": rate}))
    (evidence,) = finding.evidence
    assert evidence.startswith("1601 images/s (median of 8 runs) -> 900 images/s; ")
    assert evidence.endswith("the best of several measurements, the least 850")


def test_a_slowdown_says_since_when_and_what_changed_then() -> None:
    newer = STACK | {"driver xe": "6.2"}
    fallen = [slow(900.0, stack=newer, day=day) for day in (9, 10)]
    finding = only(*steady(), *fallen)
    assert "fell to 56%, since 2026-01-09" in finding.symptom
    assert finding.cause == "driver xe: 6.1 -> 6.2"


def test_a_cpu_is_never_judged_by_its_speed() -> None:
    history = steady(30, accelerator="cpu", day=1)
    for speed in (10.0, 1600.0):
        result = compared(*history, slow(speed, accelerator="cpu"))
        assert (result.word, result.suspects) == ("passed", set())
        assert result.speeds[0].not_judged == "a CPU promises no speed"


def test_a_busy_host_is_not_judged_by_its_speed() -> None:
    for load in ({"steal": 0.2}, {"cpu pressure": 0.6}):
        result = compared(*steady(), slow(load=load))
        assert (result.word, result.suspects) == ("passed", set())
        assert result.speeds[0].not_judged == "the host was busy"
    usual = steady(load={"cpu pressure": 0.5})
    assert codes(*usual, slow(load={"cpu pressure": 0.6})) == ["slowed"]


def test_speeds_of_the_other_suite_are_no_history() -> None:
    result = compared(*steady(suite="quick"), slow())
    assert result.word == "passed"
    assert result.speeds[0].not_judged == "0 of 8 runs"


def test_a_card_that_always_warns_is_judged_all_the_same() -> None:
    assert codes(*steady(warned=IDS[1:]), slow(warned=IDS[1:])) == ["slowed"]


def test_truth_is_compared_with_its_last_good_result() -> None:
    error = {"unit": "1", "limit": 4e-3}
    for name, part, good, bad, code in (
        ("float16", error, 3.2e-5, 3.84e-4, "accuracy-lost"),
        ("memory", {"unit": "GiB"}, 15.9, 12.0, "less-memory"),
        ("count", {"unit": "count"}, 2.0, 1.0, "fewer-devices"),
    ):

        def having(now: float, name: str = name, part: Any = part) -> Report:  # noqa: ANN401
            return report(ids=IDS[:1], numbers={name: {"value": now} | part})

        first, lost = having(good), having(bad)
        assert codes(first, first) == codes(lost, first) == []
        assert codes(first, lost) == [code]
        # A bad result never becomes the standard, however often it comes.
        assert codes(first, *[lost] * 9, lost) == [code]
        assert codes(first, lost, first) == []
        assert compared(first, lost).word == "worse"


def test_an_error_that_grows_is_told_long_before_its_limit() -> None:
    def off(error: float, files: str = "a") -> Report:
        number = {"value": error, "unit": "1", "limit": 4e-3}
        return report(ids=IDS[:1], numbers={"float16": number}, files=files)

    finding = only(off(1e-4), off(3.84e-4))
    assert (finding.code, finding.level) == ("accuracy-lost", Level.ERROR)
    assert finding.symptom == "device.matmul: float16 grew"
    assert finding.evidence == ("0.0001 -> 0.000384; the limit is 0.004",)
    assert codes(off(1e-4), off(2.9e-4)) == []
    assert codes(off(1e-9), off(1e-4)) == []  # below 1 % of the limit is rounding
    # Of another version of the suite, it is another number.
    assert codes(off(1e-4), off(1e-3, "b")) == []
    assert codes(off(1e-4), off(1e-4, "b"), off(1e-3, "b")) == ["accuracy-lost"]


def test_how_long_a_check_takes_is_not_compared() -> None:
    numbers = [{"import": {"value": value, "unit": "s"}} for value in (2.0, 60.0)]
    assert codes(*(report(numbers=each) for each in numbers)) == []


def test_devices_that_are_checked_by_turns_are_not_compared_with_each_other() -> None:
    by_turns = [of_one(number, day=day) for day, number in enumerate((0, 1, 0, 1), 1)]
    for after in (of_one(0, day=9), of_one(1, day=9)):
        before = comparable(by_turns, after)
        assert {old.asked for old in before} == {after.asked}
        assert codes(*before, after) == []
    # Reports of earlier versions are told apart by their devices.
    old = [of_one(number, day=1).model_copy(update={"asked": ""}) for number in (0, 1)]
    assert comparable(old, of_one(0, day=2)) == old[:1]


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


def test_another_device_or_target_is_not_compared() -> None:
    other = report(device="Arc B580")
    unknown = report(device=None)  # the driver that names it may be what broke
    assert comparable([report(), other, unknown], report()) == [report(), unknown]
    assert comparable([report(), other], unknown) == [report(), other]
    foreign = report().model_copy(update={"target": "max-linux"})
    assert comparable([foreign], report()) == []


def test_nothing_changed_is_no_finding() -> None:
    result = compared(report(), report())
    assert (result.moves, result.findings, result.word) == ((), (), "passed")
    assert (result.compared, result.new) == (IDS, ())
    result = compared(report(ids=IDS[:1]), report())
    assert (result.compared, result.new) == (IDS[:1], IDS[1:])


def test_the_layer_that_changed_is_named_and_is_the_cause() -> None:
    after = report(failed=IDS[:1], stack=STACK | {"compute-runtime": "24.39"})
    result = compared(report(), after)
    assert [str(move) for move in result.moves] == ["compute-runtime: 25.18 -> 24.39"]
    (finding,) = result.findings
    assert finding.code == "check-broke"
    assert finding.cause == "compute-runtime: 25.18 -> 24.39"
    assert finding.evidence == ("device.matmul raises",)
    now = {"kernel": "6.1", "driver xe": "6.2", "CUDA driver library": "580.65"}
    assert {str(move) for move in changed_layers(report(), now, "b" * 64)} == {
        "driver xe: 6.1 -> 6.2",
        "compute-runtime: 25.18 -> absent",
        "CUDA driver library: absent -> 580.65",
        f"lock: {'a' * 16} -> {'b' * 16}",
    }


def test_a_break_without_a_change_says_so_and_names_the_last_one() -> None:
    nothing = "nothing that is recorded changed"
    assert nothing in only(report(), report(IDS[:1])).cause
    newer = STACK | {"kernel": "6.2"}
    history = report(), report(stack=newer, day=2)
    cause = only(*history, report(IDS[:1], stack=newer, day=3)).cause
    assert "the last change, 2026-01-02T00:00:00Z: kernel: 6.1 -> 6.2" in cause


def test_what_a_check_no_longer_compares_is_named() -> None:
    def run(day: int, *refused: str, **parts: Any) -> Report:  # noqa: ANN401
        numbers = {
            "float32, share of the limit": {"value": 0.1, "unit": "1", "limit": 1.0},
            "float32, compared": {"value": 9.0, "unit": "count"},
        }
        usual: dict[str, Any] = {"ids": ("operators.options",), "files": "f"}
        made = report(**usual | {"day": day, "numbers": numbers} | parts)
        missing = {f"not offered: {name}": "torch's table" for name in refused}
        check = made.checks[0].model_copy(update={"not_measured": missing})
        return made.model_copy(update={"checks": (check,)})

    gelu = "gelu bfloat16"
    result = compared(run(1, "erf float16"), run(2, "erf float16", gelu))
    assert result.vanished == (f"operators.options: {gelu}",)
    (finding,) = result.findings
    assert (finding.code, finding.evidence) == ("compares-less", (gelu,))
    assert result.word == "worse"
    # Another torch may offer less: it is named all the same.
    result = compared(run(1), run(2, gelu, torch="2.10.0+xpu"))
    assert (result.vanished, result.word) == ((f"operators.options: {gelu}",), "passed")
    # A type that is gone, and a count that fell.
    halved = {"float32, compared": {"value": 5.0, "unit": "count"}}
    lost = compared(run(1), run(2, numbers=halved)).vanished
    assert lost == ("operators.options: float32, share of the limit",)
    less = run(1).checks[0].numbers | {
        "float32, compared": {"value": 5.0, "unit": "count"}
    }
    lost = compared(run(1), run(2, numbers=less)).vanished
    assert lost == ("operators.options: float32, compared 9 -> 5",)
    # Neither the same again, nor more, nor another suite is a loss.
    for before, after in (
        (run(1, gelu), run(2, gelu)),
        (run(1, gelu), run(2)),
        (run(1), run(2, gelu, files="g")),
        (run(1), run(2, gelu, suite="quick")),
    ):
        assert compared(before, after).vanished == ()


def test_a_refused_operator_is_among_what_vanished() -> None:
    failed = report(IDS[:1], day=2)
    finding = failed.checks[0].finding
    assert finding is not None
    refused = replace(finding, code="operator-lost")
    check = failed.checks[0].model_copy(update={"finding": refused})
    lost = failed.model_copy(update={"checks": (check, *failed.checks[1:])})
    assert compared(report(), lost).vanished == (f"{IDS[0]}: {IDS[0]} raises",)
    assert compared(report(), failed).vanished == ()


def test_a_check_that_is_lost_is_worse_once_and_stays_visible() -> None:
    gone = {"id": IDS[1], "title": "t", "owed": False, "reason": "no C compiler"}
    less = [report(ids=IDS[:1], not_run=(gone,), day=day) for day in (2, 3)]
    finding = only(report(), less[0])
    assert (finding.code, finding.level) == ("check-vanished", Level.ERROR)
    assert finding.symptom == f"{IDS[1]} is not run any more: no C compiler"
    assert compared(report(), less[0]).word == "worse"
    assert compared(report(), less[0]).vanished == (IDS[1],)
    assert compared(report(), *less).vanished == ()
    finding = only(report(), *less)
    assert (finding.code, finding.level) == ("check-vanished", Level.NOTE)
    assert compared(report(), *less).word == "passed"
    # The quick suite after the full one has lost none.
    assert codes(report(), report(ids=IDS[:1], suite="quick", day=2)) == []


def test_a_run_that_broke_is_no_standard_and_hides_nothing_that_vanished() -> None:
    newer = STACK | {"kernel": "6.2"}
    broke = report(ids=(), stack=newer, broken="its process ended", day=2)
    result = compared(report(), broke, report(ids=IDS[:1], stack=newer, day=3))
    assert [(one.code, one.level) for one in result.findings] == [
        ("check-vanished", Level.ERROR)
    ]
    assert result.vanished == (IDS[1],)
    assert result.since == report().started
    assert [str(move) for move in result.moves] == ["kernel: 6.1 -> 6.2"]
    assert compared(broke, report(day=3)).word == "passed"


def test_a_healed_check_is_a_note_and_one_that_warns_says_so_itself() -> None:
    reports = [report(failed=IDS[:1]), report()]
    finding = only(*reports)
    assert (finding.code, finding.level) == ("check-healed", Level.NOTE)
    assert compared(*reports).word == "passed"
    assert codes(report(), report(warned=IDS[1:], day=2)) == []


def test_a_lasting_failure_blinds_nothing_and_says_since_when() -> None:
    newer, newest = STACK | {"kernel": "6.2"}, STACK | {"kernel": "6.3"}
    red: dict[str, Any] = {"ids": IDS, "failed": IDS[:1]}
    history = [report(), *(report(**red, stack=newer, day=day) for day in range(2, 10))]
    result = compared(*history, slow(**red, stack=newest))
    still, slowed = result.findings
    assert slowed.symptom == "throughput.training: throughput fell to 44%"
    assert still.code == "check-still-failing"
    assert still.symptom == "device.matmul is still failing, since 2026-01-02T00:00:00Z"
    assert (still.cause, still.remedy) == ("kernel: 6.1 -> 6.2", "r")
    assert result.word == "worse"
    assert "the first report" in only(report(**red), report(**red, day=2)).symptom


def test_blocked_checks_are_one_note() -> None:
    after = report(failed=IDS)
    broken, blocked = after.checks
    assert blocked.finding is not None
    note = replace(blocked.finding, level=Level.NOTE)
    checks = (broken, blocked.model_copy(update={"finding": note}))
    found = codes(report(), after.model_copy(update={"checks": checks}))
    assert found == ["check-broke", "checks-blocked"]
