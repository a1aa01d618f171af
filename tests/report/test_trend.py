"""What the comparison of rates finds and what it leaves alone, on generated and recorded series."""

from __future__ import annotations

import math
import random
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING

import pytest

from provision.report.measures import RATE
from provision.report.trend import Fall, Point, judge, point, upper_quartile
from tests.report import generate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.report.generate import Run

TOLERANCE = math.log(RATE.tolerance)
TRIALS = 200
QUIET = [(0.05, 0.03), (0.05, 0.05), (0.10, 0.03), (0.10, 0.05)]  # of rounds, of runs


def points(runs: Iterable[Run], *, shares: bool = True) -> list[Point]:
    return [
        point(run.rates, "same", 1, median(run.shares) if shares else None, None)
        for run in runs
    ]


def found(fall: Fall | None) -> bool:
    return fall is not None and not fall.doubtful


def rate(within: float, between: float, factor: float, history: int) -> float:
    """Return the part of the trials in which a run with this part of the speed is found."""
    hits = 0
    for seed in range(TRIALS):
        runs = list(
            islice(generate.normal(random.Random(seed), within, between), history + 1)
        )
        hits += found(judge(points([*runs[:-1], runs[-1].slower(factor)]), TOLERANCE))
    return hits / TRIALS


@pytest.mark.parametrize(("within", "between"), QUIET)
@pytest.mark.parametrize("history", [5, 20])
def test_a_fall_by_a_quarter_is_found(
    within: float, between: float, history: int
) -> None:
    assert rate(within, between, 0.75, history) >= 0.95


@pytest.mark.parametrize(("within", "between"), QUIET)
@pytest.mark.parametrize("history", [1, 5, 20])
def test_half_the_speed_is_always_found(
    within: float, between: float, history: int
) -> None:
    assert rate(within, between, 0.5, history) == 1.0


def alarms(runs: Iterator[Run], count: int = 100, *, shares: bool = True) -> int:
    """Return how many of some identical runs are called slower than those before them."""
    course = points(islice(runs, count), shares=shares)
    return sum(found(judge(course[:at], TOLERANCE)) for at in range(2, count + 1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"busy": 0.3, "burst": 0.3},
        {"busy": 0.1, "burst": 0.3, "hidden": 0.2},
    ],
)
def test_a_shared_host_gives_one_false_alarm_in_a_hundred_runs(
    options: dict[str, float],
) -> None:
    seen = [
        alarms(generate.shared(random.Random(seed), **options)) for seed in range(10)
    ]
    assert sum(seen) / len(seen) <= 1.0


@pytest.mark.parametrize("kind", [generate.drifting, generate.bimodal])
def test_a_swinging_host_gives_one_false_alarm_in_a_hundred_runs(kind: object) -> None:
    assert callable(kind)
    seen = [alarms(kind(random.Random(seed))) for seed in range(10)]
    assert sum(seen) / len(seen) <= 1.0


@pytest.mark.parametrize(("within", "between"), QUIET)
def test_a_quiet_host_gives_one_false_alarm_in_a_hundred_runs(
    within: float, between: float
) -> None:
    seen = [
        alarms(generate.normal(random.Random(seed), within, between))
        for seed in range(10)
    ]
    assert sum(seen) / len(seen) <= 1.0


def test_a_shared_host_without_shares_gives_one_false_alarm_in_a_hundred_runs() -> None:
    """Reports of earlier versions have no CPU share."""
    seen = [
        alarms(generate.shared(random.Random(seed)), shares=False) for seed in range(10)
    ]
    assert sum(seen) / len(seen) <= 1.0


def test_recorded_runs_of_a_shared_host_give_no_false_alarm() -> None:
    runs = generate.recorded()
    assert max(median(run.rates) for run in runs) > 20 * min(
        median(run.rates) for run in runs
    )
    assert alarms(iter(runs), len(runs)) == 0


@pytest.mark.parametrize("factor", [0.5, 0.75])
def test_a_slower_device_is_found_on_the_recorded_host_when_it_is_idle(
    factor: float,
) -> None:
    """In a run that one burst hit at most; with more, it is shown until a second run confirms."""
    runs = generate.recorded()
    judged = 0
    for at, run in list(enumerate(runs))[5:]:
        if median(run.shares) > 1.9:
            fall = judge(points([*runs[:at], run.slower(factor)]), TOLERANCE)
            assert fall is not None, at
            idle = sorted(run.shares)[1] > 1.8
            assert found(fall) or not idle, at
            judged += idle
    assert judged >= 5


@pytest.mark.parametrize("options", [{}, {"busy": 0.3, "burst": 0.3}])
def test_half_the_speed_is_always_found_on_a_shared_host_that_is_idle(
    options: dict[str, float],
) -> None:
    for seed in range(100):
        chance = random.Random(seed)
        before = list(islice(generate.shared(chance, **options), 20))
        idle = next(generate.shared(chance, busy=0.0, burst=0.0))
        assert found(judge(points([*before, idle.slower(0.5)]), TOLERANCE)), seed


def test_on_a_busy_host_a_slow_run_is_shown_and_not_judged() -> None:
    quiet = list(islice(generate.normal(random.Random(1), 0.05, 0.03), 6))
    busy = quiet[-1].slower(0.4)._replace(shares=[1.1] * generate.ROUNDS)
    fall = judge(points([*quiet[:-1], busy]), TOLERANCE)
    assert fall is not None
    assert fall.doubtful


def course(*speeds: float, layers: str = "same") -> list[Point]:
    return [point([speed], layers, 1, None, None) for speed in speeds]


def test_four_steps_of_a_fifth_are_seen_against_the_best() -> None:
    speeds = [1000.0 * 0.8**step for step in range(5)]
    seen = [judge(course(*speeds[:at]), TOLERANCE) for at in range(2, 6)]
    assert all(map(found, seen))
    assert all(math.exp(fall.level) == pytest.approx(1000) for fall in seen if fall)


def test_a_decline_of_three_percent_per_run_is_seen() -> None:
    speeds = [1000.0 * 0.97**step for step in range(10)]
    assert found(judge(course(*speeds), TOLERANCE))


def test_a_slow_run_never_becomes_the_standard() -> None:
    fall = judge(course(1000, 1000, *[600] * 200), TOLERANCE)
    assert fall is not None
    assert math.exp(fall.level) == pytest.approx(1000)
    assert fall.since == 2


def test_a_lucky_run_does_not_become_the_standard() -> None:
    assert judge(course(*[1000] * 8, 1600, *[1000] * 4), TOLERANCE) is None


def test_a_dip_that_passed_without_a_change_is_noise_and_after_one_it_is_not() -> None:
    assert judge(course(1000, 1000, 700, 1000, 1000, 710), TOLERANCE) is None
    mended = [*course(1000, 1000, 700), *course(1000, 1000, 710, layers="new driver")]
    assert found(judge(mended, TOLERANCE))


def test_a_fall_that_lasts_longer_than_any_dip_is_found() -> None:
    before = course(1000, 1000, 700, 1000, 1000)
    assert not found(judge([*before, *course(710, 710)], TOLERANCE))
    assert found(judge([*before, *course(*[710] * 6)], TOLERANCE))


def test_bursts_slow_the_median_and_not_the_best_rounds() -> None:
    steady = [point([1000.0 + at for at in range(15)], "same", 1, None, None)] * 3
    bursts = point([1000.0] * 6 + [200.0] * 9, "same", 1, None, None)
    assert judge([*steady, bursts], TOLERANCE) is None


def test_the_upper_quartile_is_interpolated() -> None:
    assert upper_quartile([1.0]) == 1.0
    assert upper_quartile([0.0, 1.0]) == 0.75
    assert upper_quartile([0.0, 1.0, 2.0, 3.0, 4.0]) == 3.0
