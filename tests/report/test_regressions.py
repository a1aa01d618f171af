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
    checks = []
    for name in ids:
        ended = "failed" if name in failed else outcome
        checks.append(check(name, ended, numbers))
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
    runs = []
    for number in range(count):
        speed = 1600.0 + number % 3
        runs.append(at_speed(speed, day=number + 1, **parts))
    return runs


def compared(*reports: Report) -> Comparison:
    *earlier, newest = reports
    return compare_reports(earlier, newest)


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
    assert compared(*steady(), at_speed(1600.0)).suspects == set()


def test_slower_is_a_warning_and_truth_makes_it_worse() -> None:
    finding = only(*steady(), at_speed(700.0))
    assert finding.code == "slowed"
    assert finding.level == Level.WARNING
    slow = at_speed(700.0)
    broken = check(MATMUL, "failed", {})
    after = with_checks(slow, *slow.checks, broken)
    result = compared(*steady(ids=IDS), after)
    assert result.word == "worse"


def test_only_a_speed_well_below_the_median_is_slower() -> None:
    words = {
        213.0: "slower",
        1200.0: "slower",
        1400.0: "passed",
        1590.0: "passed",
        9000.0: "passed",
    }
    for speed, word in words.items():
        result = compared(*steady(), at_speed(speed))
        assert result.word == word
    # A card that always warns is judged all the same.
    before = steady(outcome="warned")
    warned = at_speed(700.0, outcome="warned")
    assert codes(*before, warned) == ["slowed"]


def test_a_speed_that_was_measured_twice_says_so() -> None:
    rate = {"value": 900.0, "again": 850.0, "unit": "images/s"}
    repeated = at_speed(0, numbers={"throughput": rate})
    finding = only(*steady(), repeated)
    (evidence,) = finding.evidence
    assert evidence == (
        "1601 images/s (median of 8 runs) -> 900 images/s; "
        "the best of several measurements, the least 850"
    )


def test_a_slowdown_says_since_when_and_what_changed_then() -> None:
    fallen = at_speed(900.0, stack=NEWER, day=9)
    still_slow = at_speed(900.0, stack=STACK | {"kernel": "6.3"}, day=10)
    finding = only(*steady(), fallen, still_slow)
    assert "fell to 56%, since 2026-01-09" in finding.symptom
    assert finding.cause == "kernel: 6.1 -> 6.2"


def test_speed_is_not_judged_on_a_cpu_a_busy_host_or_by_the_other_suite() -> None:
    slow = at_speed(700.0)
    stolen = at_speed(700.0, load={"steal": 0.2})
    pressed = at_speed(700.0, load={"cpu pressure": 0.6})
    on_cpu = at_speed(700.0, accelerator="cpu")
    for earlier, after, reason in (
        (steady(accelerator="cpu"), on_cpu, "a CPU promises no speed"),
        (steady(), stolen, "the host was busy"),
        (steady(), pressed, "the host was busy"),
        (steady(suite="quick"), slow, "0 of 8 runs"),
    ):
        result = compared(*earlier, after)
        assert result.word == "passed"
        assert result.suspects == set()
        assert result.speeds[0].not_evaluated == reason
    always_busy = steady(load={"cpu pressure": 0.5})
    assert codes(*always_busy, pressed) == ["slowed"]


def test_truth_is_compared_with_its_last_good_result() -> None:
    error = {"value": 3.2e-5, "unit": "1", "limit": 4e-3}
    memory = {"value": 15.9, "unit": "GiB"}
    count = {"value": 2.0, "unit": "count"}
    for name, number, bad, code in (
        ("float16", error, 3.84e-4, "accuracy-lost"),
        ("memory", memory, 12.0, "less-memory"),
        ("count", count, 1.0, "fewer-devices"),
    ):
        worse = number | {"value": bad}
        first = report(numbers={name: number}, ids=(MATMUL,))
        lost = report(numbers={name: worse}, ids=(MATMUL,))
        assert codes(first, first) == []
        assert codes(lost, first) == []
        assert codes(first, lost) == [code]
        # A bad result never becomes the standard, however often it comes.
        often = [lost] * 10
        assert codes(first, *often) == [code]
        assert codes(first, lost, first) == []
        # What is better becomes the standard.
        assert codes(lost, first, lost) == [code]
        unmeasured = report(numbers={}, ids=(MATMUL,))
        assert codes(first, unmeasured, lost) == [code]
        result = compared(first, lost)
        assert result.word == "worse"


def test_an_error_that_grows_is_told_long_before_its_limit() -> None:
    def off(error: float, files: str = "a") -> Report:
        number = {"value": error, "unit": "1", "limit": 4e-3}
        return report(ids=(MATMUL,), numbers={"float16": number}, files=files)

    usual = off(1e-4)
    finding = only(usual, off(3.84e-4))
    assert finding.symptom == "device.matmul: float16 grew"
    assert finding.evidence == ("0.0001 -> 0.000384; the limit is 0.004",)
    assert codes(usual, off(2.9e-4)) == []
    tiny = off(1e-9)
    assert codes(tiny, usual) == []  # below 1 % of the limit is rounding
    # Of another version of the suite, it is another number.
    usual_of_b = off(1e-4, "b")
    large_of_b = off(1e-3, "b")
    assert codes(usual, large_of_b) == []
    assert codes(usual, usual_of_b, large_of_b) == ["accuracy-lost"]
    before, after = (
        report(files=files, numbers={"memory": {"value": memory, "unit": "GiB"}})
        for files, memory in (("a", 15.9), ("b", 12.0))
    )
    assert set(codes(before, after)) == {"less-memory"}


def test_how_long_a_check_takes_is_not_compared() -> None:
    fast = {"import": {"value": 2.0, "unit": "s"}}
    slow = {"import": {"value": 60.0, "unit": "s"}}
    before = report(numbers=fast)
    after = report(numbers=slow)
    assert codes(before, after) == []


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
    first = on_twin(0)
    second = on_twin(1)
    later = on_twin(0, day=9)
    assert comparable([first, second], later) == [first]
    later = on_twin(1, day=9)
    assert comparable([first, second], later) == [second]
    # Reports of earlier versions are told apart by their devices.
    old_first = on_twin(0, asked="", suite="quick")
    old_second = on_twin(1, asked="", suite="quick")
    later = on_twin(0, day=2)
    assert comparable([old_first, old_second], later) == [old_first]


def test_the_history_of_a_device_goes_on_where_all_are_checked() -> None:
    on_second = f"{MATMUL}@1"
    twins = [{"name": "H100", "index": 0}, {"name": "H100", "index": 1}]
    every = report(ids=(MATMUL, on_second), asked="all", devices=twins)
    one = on_twin(1, on_second)
    assert comparable([every], one) == [every]
    assert codes(every, one) == ["check-broke"]
    # A device that is gone is told where the same was asked before, and there alone.
    without_second = on_twin(0, asked="all")
    assert codes(every, without_second) == ["check-vanished"]
    first_alone = on_twin(0)
    assert codes(every, first_alone) == []


def test_another_device_or_target_is_not_compared() -> None:
    usual = report()
    other = report(device={"name": "Arc B580"})
    unknown = report(device={})  # the driver that names it may be what broke
    of_target = report(target="max-linux")
    assert comparable([usual, other, unknown], usual) == [usual, unknown]
    assert comparable([usual, other], unknown) == [usual, other]
    assert comparable([of_target], usual) == []


def test_nothing_changed_is_no_finding() -> None:
    result = compared(report(), report())
    assert result.changes == ()
    assert result.findings == ()
    assert result.word == "passed"
    assert result.compared == IDS
    assert result.new == ()


def test_a_check_that_is_new_is_not_compared() -> None:
    less = report(ids=(MATMUL,))
    result = compared(less, report())
    assert result.compared == (MATMUL,)
    assert result.new == (TRAINING,)


def test_the_layer_that_changed_is_named_and_is_the_cause() -> None:
    before = report()
    broke = report(MATMUL, stack=NEWER)
    assert changes(before, broke) == ["kernel: 6.1 -> 6.2"]
    finding = only(before, broke)
    assert finding.code == "check-broke"
    assert finding.cause == "kernel: 6.1 -> 6.2"
    assert finding.evidence == ("device.matmul raises",)


def test_each_layer_is_compared_with_what_it_was() -> None:
    now = {"kernel": "6.1", "driver xe": "6.2", "CUDA driver library": "580.65"}
    driver, runtime, lock, library = changed_layers(report(), now, "b" * 64)
    assert str(driver) == "driver xe: 6.1 -> 6.2"
    assert str(runtime) == "compute-runtime: 25.18 -> absent"
    assert str(lock) == f"lock: {'a' * 16} -> {'b' * 16}"
    assert str(library) == "CUDA driver library: absent -> 580.65"


@pytest.mark.parametrize("hidden", ["", NOT_KNOWN])
def test_a_version_that_was_or_is_hidden_is_no_change(hidden: str) -> None:
    known = report(stack=STACK)
    shown = STACK | {"compute-runtime": hidden}
    not_shown = report(stack=shown)
    assert changed_layers(known, shown, known.lock) == ()
    assert changed_layers(not_shown, STACK, known.lock) == ()
    upgraded = shown | {"kernel": "6.2"}
    (change,) = changed_layers(known, upgraded, known.lock)
    assert change == LayerChange("kernel", "6.1", "6.2")


def test_a_break_without_a_change_says_so_and_names_the_last_one() -> None:
    nothing = "nothing that is recorded changed on this host: look at load, heat"
    finding = only(report(), report(MATMUL))
    assert finding.cause.startswith(nothing)
    upgraded = report(stack=NEWER, day=2)
    broke = report(MATMUL, stack=NEWER, day=3)
    finding = only(report(), upgraded, broke)
    assert finding.cause.startswith(nothing)
    last = "the last change, 2026-01-02T00:00:00Z: kernel: 6.1 -> 6.2"
    assert last in finding.cause


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
    before = operators("erf half")
    after = operators("erf half", "gelu half")
    result = compared(before, after)
    assert result.vanished == ("operators: gelu half",)
    assert result.word == "worse"
    finding = only(before, after)
    assert finding.code == "compares-less"
    assert finding.evidence == ("gelu half",)


def test_another_torch_may_compare_less_and_it_is_named_all_the_same() -> None:
    newer = operators("gelu half", torch="2.10.0+xpu")
    result = compared(operators(), newer)
    assert result.vanished == ("operators: gelu half",)
    assert result.word == "passed"


def test_a_type_that_is_gone_and_a_count_that_fell_are_named() -> None:
    fewer = {"float32, compared": COUNT | {"value": 5.0}}
    share_gone = operators(numbers=fewer)
    result = compared(operators(), share_gone)
    assert result.vanished == ("operators: float32, share",)
    count_fell = operators(numbers=COVERED | fewer)
    result = compared(operators(), count_fell)
    assert result.vanished == ("operators: float32, compared 9 -> 5",)


def test_the_same_again_more_or_another_suite_is_no_loss() -> None:
    refused = operators("gelu half")
    more = operators()
    quick = operators("gelu half", suite="quick")
    for before, after in ((refused, refused), (refused, more), (more, quick)):
        result = compared(before, after)
        assert result.vanished == ()
    # What failed is no standard: it may have compared less before it did.
    (lacking,) = refused.checks
    failed = with_checks(refused, lacking.model_copy(update={"outcome": "failed"}))
    result = compared(more, failed, refused)
    assert result.vanished == ("operators: gelu half",)


def test_a_refused_operator_is_among_what_vanished() -> None:
    refusal = Finding("operator-lost", Level.ERROR, "erf raises", "c", "r", ())
    refused = check(MATMUL, "failed", {}, finding=refusal)
    before = report(ids=(MATMUL,))
    lost = with_checks(report(), refused)
    result = compared(before, lost)
    assert result.vanished == ("device.matmul: erf raises",)
    result = compared(report(), report(MATMUL))
    assert result.vanished == ()


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
    full = report()
    quick = report(ids=(MATMUL,), suite="quick", day=2)
    assert codes(full, quick) == []


def test_a_run_that_broke_is_no_standard_and_hides_nothing_that_vanished() -> None:
    first = report()
    broke = report(ids=(), stack=NEWER, broken="its process ended", day=2)
    less = report(ids=(MATMUL,), stack=NEWER, day=3)
    result = compared(first, broke, less)
    assert result.word == "worse"
    assert result.vanished == (TRAINING,)
    assert result.since == first.started
    assert changes(first, broke, less) == ["kernel: 6.1 -> 6.2"]
    result = compared(broke, report(day=3))
    assert result.word == "passed"


def test_the_standard_is_the_last_run_of_its_suite_that_fails_in_nothing_else() -> None:
    good = report()
    red = report(MATMUL, stack=NEWER, day=2)
    quick = report(suite="quick", stack=NEWER, day=3)
    result = compared(good, red, quick, report(stack=NEWER, day=4))
    assert result.since == good.started
    result = compared(good, red, quick, report(MATMUL, stack=NEWER, day=4))
    assert result.since == red.started


def test_a_healed_check_is_a_note_and_one_that_warns_says_so_itself() -> None:
    finding = only(report(MATMUL), report())
    assert finding.code == "check-healed"
    assert finding.level == Level.NOTE
    warned = report(outcome="warned", day=2)
    assert codes(report(), warned) == []


def test_a_lasting_failure_blinds_nothing_and_says_since_when() -> None:
    red = check(MATMUL, "failed", {})
    history = [report()]
    for run in steady(stack=NEWER):
        history.append(with_checks(run, red, *run.checks))
    slow = at_speed(700.0, stack=STACK | {"kernel": "6.3"})
    after = with_checks(slow, red, *slow.checks)
    result = compared(*history, after)
    assert result.word == "worse"
    still, slowed = result.findings
    assert slowed.symptom == "throughput.training: throughput fell to 44%"
    assert still.code == "check-still-failing"
    assert still.symptom == "device.matmul is still failing, since 2026-01-01T00:00:00Z"
    assert still.cause == "kernel: 6.1 -> 6.2"
    assert still.remedy == "r"


def test_what_was_healed_and_fails_again_broke_anew() -> None:
    again = report(MATMUL, day=3)
    assert codes(report(MATMUL), report(day=2), again) == ["check-broke"]


def test_a_failure_that_was_always_there_lasts_since_the_first_report() -> None:
    still = only(report(MATMUL), report(MATMUL, day=2))
    assert "the first report" in still.symptom


def test_a_blocked_check_is_neither_broken_nor_vanished() -> None:
    why = Finding("blocked", Level.NOTE, "an earlier one failed", "c", "r", ())
    blocked = check(TRAINING, "failed", {}, finding=why)
    broken = check(MATMUL, "failed", {})
    after = with_checks(report(), broken, blocked)
    assert codes(report(), after) == ["check-broke"]
