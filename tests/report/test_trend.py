"""When a rate counts as slower: the simulation of decision 14, with fixed seeds.

The noise of each measurement is independent, and a run that looks slow is measured
again as the verb does it.
"""

from __future__ import annotations

import random

import pytest

from provision.report.limits import FEWEST, REPEATS
from provision.report.trend import judge, outliers

HOSTS = 1000
RUNS = 20  # of each host


def measured(
    history: list[float], chance: random.Random, spread: float, speed: float = 1.0
) -> bool:
    """Add a run of a host to its history; return whether it is called slower."""
    best = 0.0
    for _ in range(1 + REPEATS):
        best = max(best, speed * (1 + chance.gauss(0, spread)), 0.05)
        verdict = judge([*history, best])
        if not verdict.suspect:
            break
    history.append(best)
    return verdict.slower


def test_a_healthy_host_is_hardly_ever_called_slower() -> None:
    # Percent of the runs of any one place in the history; 15 % promises nothing, and is held.
    for spread, allowed in ((0.05, 0.1), (0.10, 0.5), (0.15, 1.5)):
        chance = random.Random(29)
        alarms = [0] * RUNS
        for _ in range(HOSTS):
            history: list[float] = []
            for run in range(RUNS):
                alarms[run] += measured(history, chance, spread)
        assert not any(alarms[:FEWEST])
        assert max(alarms) / HOSTS * 100 < allowed, (spread, alarms)


def test_a_device_that_lost_thirty_percent_is_named_by_the_second_run() -> None:
    for spread, least in ((0.05, 1.0), (0.10, 0.99), (0.15, 0.85)):
        chance = random.Random(29)
        named = 0
        for _ in range(HOSTS):
            history = [1 + chance.gauss(0, spread) for _ in range(FEWEST)]
            first = measured(history, chance, spread, 0.7)
            second = measured(history, chance, spread, 0.7)
            if first or second:
                named += 1
        assert named / HOSTS >= least, (spread, named)


def test_half_the_speed_is_named_at_once_and_does_not_become_usual() -> None:
    steady = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1000.0, 1008.0, 992.0]
    for count in (1, 30):
        speed = judge([*steady, *[500.0] * count])
        assert speed.slower
        assert speed.usual == pytest.approx(1000.0, rel=0.01)
        assert speed.since == len(steady)
    assert not judge([*steady, 920.0]).suspect
    assert not judge([*steady, 1600.0]).slower


def test_a_slow_decline_is_seen() -> None:
    rates = [1000.0 * 0.97**run for run in range(30)]
    assert any(judge(rates[: end + 1]).slower for end in range(30))


def test_a_device_apart_from_its_like_is_an_outlier() -> None:
    assert outliers([100.0, 101.0, 99.0, 60.0, 100.0]) == [3]
    assert outliers([100.0, 90.0, 110.0]) == []
