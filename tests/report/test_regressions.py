"""How a run stands beside the earlier ones: what broke, vanished or healed; and the speed apart."""

from __future__ import annotations

from typing import Any

import pytest

from provision.core.findings import Finding, Level
from provision.host.model import NOT_KNOWN
from provision.report.layers import LayerChange, changed_layers
from provision.report.limits import FEWEST
from provision.report.model import Check, Report, comparable
from provision.report.regressions import Comparison, compare_reports

MATMUL, TRAINING = IDS = ("device.matmul", "throughput.training")
STACK = {"kernel": "6.1", "driver xe": "6.1", "compute-runtime": "25.18"}
NEWER = STACK | {"kernel": "6.2"}


def check(name: str, outcome: str, numbers: dict[str, Any], **parts: Any) -> Check:  # noqa: ANN401
    finding = Finding("op-fails", Level.ERROR, f"{name} raises", "c", "r", ("e",))
    document = {
        "id": name,
        "outcome": outcome,
        "title": f"{name} is right",
        "stands_for": "a failure",
        "seconds": 1.0,
        "numbers": numbers,
        "finding": None if outcome == "passed" else finding,
    }
    return Check.model_validate(document | parts)


def report(
    *failed: str,
    ids: tuple[str, ...] = IDS,
    outcome: str = "passed",
    numbers: dict[str, Any] | None = None,
    day: int = 1,
    **parts: Any,  # noqa: ANN401
) -> Report:
    """A run of some checks; those that did not fail have an outcome and numbers."""
    if numbers is None:
        numbers = {"throughput": {"value": 1600.0, "unit": "images/s"}}
    checks = [
        check(name, "failed" if name in failed else outcome, numbers) for name in ids
    ]
    document = {
        "schema_version": 2,
        "suite": "full",
        "target": "arc-linux",
        "python": "3.11.7",
        "torch": "2.9.1+xpu",
        "device": {"name": "Arc A770"},
        "started": f"2026-01-{day:02}T00:00:00Z",
        "seconds": 9.0,
        "checks": checks,
        "stack": STACK,
        "lock": "a" * 64,
    }
    return Report.model_validate(document | parts)


def at_speed(speed: float, **parts: Any) -> Report:  # noqa: ANN401
    rate = {"value": speed, "unit": "images/s"}
    usual: dict[str, Any] = {
        "ids": (TRAINING,),
        "numbers": {"throughput": rate},
        "day": 20,
    }
    return report(**usual | parts)


def steady(count: int = FEWEST, **parts: Any) -> list[Report]:  # noqa: ANN401
    """As many runs of a host whose speed hardly differs."""
    return [at_speed(1600.0 + n % 3, day=n + 1, **parts) for n in range(count)]


def compared(*reports: Report) -> Comparison:
    return compare_reports(reports[:-1], reports[-1])


def codes(*reports: Report) -> list[str]:
    return [finding.code for finding in compared(*reports).findings]


def changes(*reports: Report) -> list[str]:
    return [str(change) for change in compared(*reports).changes]


def with_checks(report: Report, *checks: Check) -> Report:
    return report.model_copy(update={"checks": checks})


def only(*reports: Report) -> Finding:
    (finding,) = compared(*reports).findings
    return finding


def test_slower_is_said_only_after_eight_runs_and_before_that_how_many_there_are() -> (
    None
):
    for count in range(1, FEWEST):
        result = compared(*steady(count), at_speed(700.0))
        (speed,) = result.speeds
        assert speed.runs == count
        assert speed.not_evaluated == f"{count} of 8 runs"
        assert result.word == "passed"
        assert result.suspects == set()
    result = compared(*steady(), at_speed(700.0))
    assert result.speeds[0].not_evaluated == ""
    assert result.word == "slower"
    assert result.suspects == {TRAINING}


def test_slower_is_a_warning_and_truth_makes_it_worse() -> None:
    finding = only(*steady(), at_speed(700.0))
    assert finding.code == "slowed"
    assert finding.level == Level.WARNING
    (slow,) = at_speed(700.0).checks
    after = with_checks(at_speed(700.0), slow, check(MATMUL, "failed", {}))
    assert compared(*steady(ids=IDS), after).word == "worse"


def test_only_a_speed_well_below_the_median_is_slower() -> None:
    for speed in (213.0, 1200.0):
        assert compared(*steady(), at_speed(speed)).word == "slower"
    for speed in (1400.0, 1590.0, 9000.0):
        assert compared(*steady(), at_speed(speed)).word == "passed"
    # A card that always warns is judged all the same.
    warned = at_speed(700.0, outcome="warned")
    assert codes(*steady(outcome="warned"), warned) == ["slowed"]


def test_a_speed_that_was_measured_twice_says_so() -> None:
    rate = {"value": 900.0, "again": 850.0, "unit": "images/s"}
    repeated = at_speed(0, numbers={"throughput": rate})
    (evidence,) = only(*steady(), repeated).evidence
    assert evidence == (
        "1601 images/s (median of 8 runs) -> 900 images/s; "
        "the best of several measurements, the least 850"
    )


def test_a_slowdown_says_since_when_and_what_changed_then() -> None:
    fallen = at_speed(900.0, stack=NEWER, day=9)
    still_slow = at_speed(900.0, stack=NEWER, day=10)
    finding = only(*steady(), fallen, still_slow)
    assert "fell to 56%, since 2026-01-09" in finding.symptom
    assert finding.cause == "kernel: 6.1 -> 6.2"


def test_speed_is_not_judged_on_a_cpu_a_busy_host_or_by_the_other_suite() -> None:
    busy = "the host was busy"
    for earlier, after, reason in (
        ({"accelerator": "cpu"}, {"accelerator": "cpu"}, "a CPU promises no speed"),
        ({}, {"load": {"steal": 0.2}}, busy),
        ({}, {"load": {"cpu pressure": 0.6}}, busy),
        ({"suite": "quick"}, {}, "0 of 8 runs"),
    ):
        result = compared(*steady(**earlier), at_speed(700.0, **after))
        assert result.word == "passed"
        assert result.suspects == set()
        assert result.speeds[0].not_evaluated == reason
    always_busy = steady(load={"cpu pressure": 0.5})
    slow = at_speed(700.0, load={"cpu pressure": 0.6})
    assert codes(*always_busy, slow) == ["slowed"]


def test_truth_is_compared_with_its_last_good_result() -> None:
    for name, unit, limit, good, bad, code in (
        ("float16", "1", 4e-3, 3.2e-5, 3.84e-4, "accuracy-lost"),
        ("memory", "GiB", None, 15.9, 12.0, "less-memory"),
        ("count", "count", None, 2.0, 1.0, "fewer-devices"),
    ):
        number = {"unit": unit, "limit": limit}
        usual = {name: number | {"value": good}}
        worse = {name: number | {"value": bad}}
        first = report(numbers=usual, ids=(MATMUL,))
        lost = report(numbers=worse, ids=(MATMUL,))
        assert codes(first, first) == []
        assert codes(lost, first) == []
        assert codes(first, lost) == [code]
        # A bad result never becomes the standard, however often it comes.
        assert codes(first, *[lost] * 10) == [code]
        assert codes(first, lost, first) == []
        assert compared(first, lost).word == "worse"


def test_an_error_that_grows_is_told_long_before_its_limit() -> None:
    def off(error: float, files: str = "a") -> Report:
        number = {"value": error, "unit": "1", "limit": 4e-3}
        return report(ids=(MATMUL,), numbers={"float16": number}, files=files)

    finding = only(off(1e-4), off(3.84e-4))
    assert finding.symptom == "device.matmul: float16 grew"
    assert finding.evidence == ("0.0001 -> 0.000384; the limit is 0.004",)
    assert codes(off(1e-4), off(2.9e-4)) == []
    assert codes(off(1e-9), off(1e-4)) == []  # below 1 % of the limit is rounding
    # Of another version of the suite, it is another number.
    assert codes(off(1e-4), off(1e-3, "b")) == []
    assert codes(off(1e-4), off(1e-4, "b"), off(1e-3, "b")) == ["accuracy-lost"]


def test_how_long_a_check_takes_is_not_compared() -> None:
    fast = {"import": {"value": 2.0, "unit": "s"}}
    slow = {"import": {"value": 60.0, "unit": "s"}}
    assert codes(report(numbers=fast), report(numbers=slow)) == []


def on_twin(number: int, *failed: str, **parts: Any) -> Report:  # noqa: ANN401
    """A run on one of two like cards."""
    name = f"{MATMUL}@1" if number else MATMUL
    usual: dict[str, Any] = {
        "ids": (name,),
        "devices": [{"name": "H100", "index": number}],
        "asked": str(number),
    }
    return report(*failed, **usual | parts)


def test_devices_that_are_checked_by_turns_are_not_compared_with_each_other() -> None:
    first, second = on_twin(0), on_twin(1)
    assert comparable([first, second], on_twin(0, day=9)) == [first]
    assert comparable([first, second], on_twin(1, day=9)) == [second]
    # Reports of earlier versions are told apart by their devices.
    old_first = on_twin(0, asked="", suite="quick")
    old_second = on_twin(1, asked="", suite="quick")
    assert comparable([old_first, old_second], on_twin(0, day=2)) == [old_first]


def test_the_history_of_a_device_goes_on_where_all_are_checked() -> None:
    on_second = f"{MATMUL}@1"
    twins = [{"name": "H100", "index": 0}, {"name": "H100", "index": 1}]
    every = report(ids=(MATMUL, on_second), asked="all", devices=twins)
    one = on_twin(1, on_second)
    assert comparable([every], one) == [every]
    assert codes(every, one) == ["check-broke"]
    # A device that is gone is told where the same was asked before, and there alone.
    assert codes(every, on_twin(0, asked="all")) == ["check-vanished"]
    assert codes(every, on_twin(0)) == []


def test_another_device_or_target_is_not_compared() -> None:
    other = report(device={"name": "Arc B580"})
    unknown = report(device={})  # the driver that names it may be what broke
    assert comparable([report(), other, unknown], report()) == [report(), unknown]
    assert comparable([report(), other], unknown) == [report(), other]
    assert comparable([report(target="max-linux")], report()) == []


def test_nothing_changed_is_no_finding() -> None:
    result = compared(report(), report())
    assert result.changes == ()
    assert result.findings == ()
    assert result.word == "passed"
    assert result.compared == IDS
    assert result.new == ()


def test_a_check_that_is_new_is_not_compared() -> None:
    result = compared(report(ids=(MATMUL,)), report())
    assert result.compared == (MATMUL,)
    assert result.new == (TRAINING,)


def test_the_layer_that_changed_is_named_and_is_the_cause() -> None:
    broke = report(MATMUL, stack=NEWER)
    assert changes(report(), broke) == ["kernel: 6.1 -> 6.2"]
    finding = only(report(), broke)
    assert finding.code == "check-broke"
    assert finding.cause == "kernel: 6.1 -> 6.2"
    assert finding.evidence == ("device.matmul raises",)


def test_each_layer_is_compared_with_what_it_was() -> None:
    now = {"kernel": "6.1", "driver xe": "6.2", "CUDA driver library": "580.65"}
    assert [str(move) for move in changed_layers(report(), now, "b" * 64)] == [
        "driver xe: 6.1 -> 6.2",
        "compute-runtime: 25.18 -> absent",
        f"lock: {'a' * 16} -> {'b' * 16}",
        "CUDA driver library: absent -> 580.65",
    ]


@pytest.mark.parametrize("hidden", ["", NOT_KNOWN])
def test_a_version_that_was_or_is_hidden_is_no_change(hidden: str) -> None:
    known = report(stack=STACK)
    shown = STACK | {"compute-runtime": hidden}
    assert changed_layers(known, shown, known.lock) == ()
    assert changed_layers(report(stack=shown), STACK, known.lock) == ()
    assert changed_layers(known, shown | {"kernel": "6.2"}, known.lock) == (
        LayerChange("kernel", "6.1", "6.2"),
    )


def test_a_break_without_a_change_says_so_and_names_the_last_one() -> None:
    nothing = "nothing that is recorded changed on this host: look at load, heat"
    assert only(report(), report(MATMUL)).cause.startswith(nothing)
    upgraded = report(stack=NEWER, day=2)
    broke = report(MATMUL, stack=NEWER, day=3)
    cause = only(report(), upgraded, broke).cause
    assert cause.startswith(nothing)
    assert "the last change, 2026-01-02T00:00:00Z: kernel: 6.1 -> 6.2" in cause


COUNT = {"value": 9.0, "unit": "count"}
COVERED = {
    "float32, share": {"value": 0.1, "unit": "1", "limit": 1.0},
    "float32, compared": COUNT,
}


def operators(
    *refused: str,
    numbers: dict[str, Any] = COVERED,
    **parts: Any,  # noqa: ANN401
) -> Report:
    """A run whose check of operators was refused some of them by torch."""
    missing = {f"not offered: {name}": "torch's table" for name in refused}
    made = check("operators", "passed", numbers, not_measured=missing)
    return with_checks(report(files="f", **parts), made)


def test_what_a_check_no_longer_compares_is_named() -> None:
    before, after = operators("erf half"), operators("erf half", "gelu half")
    result = compared(before, after)
    assert result.vanished == ("operators: gelu half",)
    assert result.word == "worse"
    finding = only(before, after)
    assert finding.code == "compares-less"
    assert finding.evidence == ("gelu half",)


def test_another_torch_may_compare_less_and_it_is_named_all_the_same() -> None:
    result = compared(operators(), operators("gelu half", torch="2.10.0+xpu"))
    assert result.vanished == ("operators: gelu half",)
    assert result.word == "passed"


def test_a_type_that_is_gone_and_a_count_that_fell_are_named() -> None:
    fewer = {"float32, compared": COUNT | {"value": 5.0}}
    gone = compared(operators(), operators(numbers=fewer)).vanished
    assert gone == ("operators: float32, share",)
    gone = compared(operators(), operators(numbers=COVERED | fewer)).vanished
    assert gone == ("operators: float32, compared 9 -> 5",)


def test_the_same_again_more_or_another_suite_is_no_loss() -> None:
    refused = operators("gelu half")
    assert compared(refused, refused).vanished == ()
    assert compared(refused, operators()).vanished == ()
    quick = operators("gelu half", suite="quick")
    assert compared(operators(), quick).vanished == ()


def test_a_refused_operator_is_among_what_vanished() -> None:
    refusal = Finding("operator-lost", Level.ERROR, "erf raises", "c", "r", ())
    refused = check(MATMUL, "failed", {}, finding=refusal)
    lost = with_checks(report(), refused)
    vanished = compared(report(ids=(MATMUL,)), lost).vanished
    assert vanished == ("device.matmul: erf raises",)
    assert compared(report(), report(MATMUL)).vanished == ()


def test_a_check_that_is_lost_is_worse_once_and_stays_visible() -> None:
    gone = {"id": TRAINING, "title": "t", "required": False, "reason": "no C compiler"}
    less = report(ids=(MATMUL,), not_run=[gone], day=2)
    result = compared(report(), less)
    assert result.word == "worse"
    assert result.vanished == (TRAINING,)
    finding = only(report(), less)
    assert finding.code == "check-vanished"
    assert finding.symptom == f"{TRAINING} is not run any more: no C compiler"
    again = report(ids=(MATMUL,), not_run=[gone], day=3)
    result = compared(report(), less, again)
    assert result.word == "passed"
    assert result.vanished == ()
    finding = only(report(), less, again)
    assert finding.code == "check-vanished"
    assert finding.level == Level.NOTE


def test_the_quick_suite_after_the_full_one_has_lost_no_check() -> None:
    quick = report(ids=(MATMUL,), suite="quick", day=2)
    assert codes(report(), quick) == []


def test_a_run_that_broke_is_no_standard_and_hides_nothing_that_vanished() -> None:
    broke = report(ids=(), stack=NEWER, broken="its process ended", day=2)
    less = report(ids=(MATMUL,), stack=NEWER, day=3)
    result = compared(report(), broke, less)
    assert result.word == "worse"
    assert result.vanished == (TRAINING,)
    assert result.since == report().started
    assert changes(report(), broke, less) == ["kernel: 6.1 -> 6.2"]
    assert compared(broke, report(day=3)).word == "passed"


def test_a_healed_check_is_a_note_and_one_that_warns_says_so_itself() -> None:
    finding = only(report(MATMUL), report())
    assert finding.code == "check-healed"
    assert finding.level == Level.NOTE
    assert codes(report(), report(outcome="warned", day=2)) == []


def test_a_lasting_failure_blinds_nothing_and_says_since_when() -> None:
    red = check(MATMUL, "failed", {})
    history = [report()]
    for run in steady(stack=NEWER):
        history.append(with_checks(run, red, *run.checks))
    slow = at_speed(700.0, stack=STACK | {"kernel": "6.3"})
    after = with_checks(slow, red, *slow.checks)
    still, slowed = compared(*history, after).findings
    assert slowed.symptom == "throughput.training: throughput fell to 44%"
    assert still.code == "check-still-failing"
    assert still.symptom == "device.matmul is still failing, since 2026-01-01T00:00:00Z"
    assert still.cause == "kernel: 6.1 -> 6.2"
    assert still.remedy == "r"


def test_a_failure_that_was_always_there_lasts_since_the_first_report() -> None:
    still = only(report(MATMUL), report(MATMUL, day=2))
    assert "the first report" in still.symptom


def test_a_blocked_check_is_neither_broken_nor_vanished() -> None:
    why = Finding("blocked", Level.NOTE, "an earlier one failed", "c", "r", ())
    blocked = check(TRAINING, "failed", {}, finding=why)
    after = with_checks(report(), check(MATMUL, "failed", {}), blocked)
    assert codes(report(), after) == ["check-broke"]
