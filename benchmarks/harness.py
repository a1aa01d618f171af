"""Time contestants in interleaved rounds and express the result as ratios.

Seconds depend on the machine and on what else runs on it. Within one round all contestants meet about
the same load; their ratio is formed per round, and the median of the rounds is reported with its
quartiles. The seconds of a median round are kept beside it, for an idea of the wait.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def do_nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """One command to time.

    Attributes:
        name: Its name in the results.
        work: The timed function.
        prepare: Runs before each round, not timed.
    """

    name: str
    work: Callable[[], object]
    prepare: Callable[[], object] = do_nothing


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    Attributes:
        case: What was measured.
        tool: The contestant in the numerator.
        against: The contestant in the denominator.
        ratio: Median of the rounds' ratios.
        low: Their lower quartile.
        high: Their upper quartile.
        rounds: How many rounds.
        seconds: Median of the seconds of ``tool``; None of an earlier version's results.
        other_seconds: That of ``against``.
    """

    case: str
    tool: str
    against: str
    ratio: float
    low: float
    high: float
    rounds: int
    seconds: float | None = None
    other_seconds: float | None = None


def processor_time() -> float:
    """Return the processor seconds of all commands so far, in which other programs count less."""
    used = os.times()
    return used.children_user + used.children_system


def interleave(
    contestants: Sequence[Contestant],
    rounds: int,
    *,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of each contestant in each round.

    Args:
        contestants: In the order in which each round runs them.
        rounds: How many rounds count.
        warm_up: Run one round first that does not count, which fills the caches.
        clock: What counts the seconds.
    """
    seconds: dict[str, list[float]] = {
        contestant.name: [] for contestant in contestants
    }
    # Round -1 is the warm-up.
    for number in range(-int(warm_up), rounds):
        for contestant in contestants:
            contestant.prepare()
            started = clock()
            contestant.work()
            elapsed = clock() - started
            if number >= 0:
                seconds[contestant.name].append(elapsed)
    return seconds


def compare(case: str, seconds: Mapping[str, list[float]], tool: str) -> list[Row]:
    """Return one row per other contestant: how many times as long ``tool`` took."""
    return [
        make_row(case, (tool, other), (seconds[tool], seconds[other]))
        for other in seconds
        if other != tool
    ]


def make_row(
    case: str, names: tuple[str, str], seconds: tuple[list[float], list[float]]
) -> Row:
    """Return the row of two contestants that were timed in the same rounds."""
    ratios = [mine / other for mine, other in zip(*seconds, strict=True)]
    low, middle, high = (
        statistics.quantiles(ratios, n=4, method="inclusive")
        if len(ratios) > 1
        else ratios * 3
    )
    return Row(
        case,
        *names,
        round(middle, 3),
        round(low, 3),
        round(high, 3),
        len(ratios),
        *(round(statistics.median(each), 3) for each in seconds),
    )
