"""Whether the newest of a series of rates is slower than the host is used to.

Why these rules, and how often they are wrong: docs/decisions/14-judging-numbers.md.
"""

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from provision.report.limits import AT_ONCE, FEWEST, OUTLIER, SPREADS, TWICE

_LEAST = 1e-9  # a rate of 0 has no ratio and no logarithm


@dataclass(frozen=True, slots=True)
class Speed:
    """A rate beside the median of the runs before it; rates have the unit of the series."""

    runs: int  # earlier ones that were not slower themselves
    usual: float  # their median; 0 without any
    ratio: float  # of the rate to the usual one; 1 without a verdict
    suspect: bool  # low enough to be measured again
    slower: bool  # low enough to be called so
    since: int  # place in the series at which the present fall began


def judge(rates: Sequence[float]) -> Speed:
    """Compare the last of some rates with those before it, oldest first; at least one.

    A run that was slower does not join the history, so that it never becomes usual.
    """
    history: list[float] = []  # sorted
    ratio = 1.0
    since = 0
    for place, rate in enumerate(rates):
        before = ratio
        runs = len(history)
        usual = median(history or [0.0])
        ratio = 1.0
        if runs >= FEWEST:
            ratio = rate / usual
            if before >= TWICE:
                since = place
        two = math.sqrt(ratio * before) < TWICE and max(ratio, before) < 1
        slower = two or ratio < AT_ONCE
        if not slower:
            insort(history, max(rate, _LEAST))
    return Speed(runs, usual, ratio, two or ratio < TWICE, slower, since)


def outliers(rates: Sequence[float]) -> list[int]:
    """Return the places of the rates below those of like devices, beyond their spread."""
    scores = [math.log(max(rate, _LEAST)) for rate in rates]
    middle = median(scores)
    deviation = 1.4826 * median(abs(score - middle) for score in scores)  # from the MAD
    depth = max(OUTLIER, SPREADS * deviation)
    return [place for place, score in enumerate(scores) if middle - score > depth]
