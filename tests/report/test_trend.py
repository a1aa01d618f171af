"""When a rate counts as slower, simulated with fixed seeds.

A healthy host differs from run to run by 5, 10 or 15 %; a run that looks slow is measured
again, as the verb does. Budgets: benchmarks of a whole history are in the first test.
"""

from __future__ import annotations

import random

import pytest

from provision.report.trend import FEWEST, judge, outliers

HOSTS = 250


def measured(
    history: list[float], chance: random.Random, spread: float, speed: float = 1.0
) -> bool:
    """Add a run of a host to its history; return whether it is called slower."""

    def once() -> float:
        return max(speed * (1 + chance.gauss(0, spread)), 0.05)

    rate = once()
    if judge([*history, rate]).suspect:
        rate = max(rate, once())
    history.append(rate)
    return judge(history).slower


@pytest.mark.parametrize(("spread", "allowed"), [(0.05, 0.001), (0.10, 0.005)])
def test_a_healthy_host_is_hardly_ever_called_slower(
    spread: float, allowed: float
) -> None:
    chance = random.Random(29)
    alarms = 0
    for _ in range(HOSTS):
        history: list[float] = []
        for run in range(21):
            alarm = measured(history, chance, spread)
            assert not (alarm and run < FEWEST)
            alarms += alarm
    assert alarms / (HOSTS * (21 - FEWEST)) < allowed


def test_a_device_that_lost_thirty_percent_is_named_by_the_second_run() -> None:
    chance = random.Random(29)
    named = 0
    for _ in range(HOSTS):
        history = [1 + chance.gauss(0, 0.1) for _ in range(FEWEST)]
        first = measured(history, chance, 0.1, 0.7)
        named += measured(history, chance, 0.1, 0.7) or first
    assert named / HOSTS >= 0.94


def test_half_the_speed_is_named_at_once_and_does_not_become_usual() -> None:
    steady = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1000.0, 1008.0, 992.0]
    for count in (1, 30):
        speed = judge([*steady, *[500.0] * count])
        assert speed.slower
        assert speed.usual == pytest.approx(1000.0, rel=0.01)
        assert speed.since == len(steady)
    assert not judge([*steady, 900.0]).suspect
    assert not judge([*steady, 1600.0]).slower


def test_nothing_is_said_of_speed_before_there_are_enough_runs() -> None:
    speed = judge([1000.0] * (FEWEST - 1) + [10.0])
    assert (speed.judged, speed.slower, speed.runs) == (False, False, FEWEST - 1)


def test_a_slow_decline_is_seen() -> None:
    rates = [1000.0 * 0.97**run for run in range(30)]
    assert any(judge(rates[: end + 1]).slower for end in range(30))


def test_a_device_apart_from_its_like_is_an_outlier() -> None:
    assert outliers([100.0, 101.0, 99.0, 60.0, 100.0]) == [3]
    assert outliers([100.0, 90.0, 110.0]) == []
