"""Whether the newest of a series of rates is slower than the host is used to.

Why these rules, and how often they are wrong: docs/decisions/14-judging-numbers.md.
"""

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FEWEST = 8  # earlier runs; fewer say too little about the noise of a host
REPEATS = 3  # most further measurements of a rate that looks slow; the best counts
# Parts of the usual rate: below the first, one run is slower; below the second, the
# geometric mean of two runs in a row is, and one run is measured again.
_AT_ONCE = 0.8
_TWICE = 0.91
_OUTLIER = math.log(1 / 0.85)  # least depth of a rate below those of like devices


@dataclass(frozen=True, slots=True)
class Speed:
    """A rate beside the median of the runs before it; rates have the unit of the series."""

    runs: int  # earlier ones that were not slower themselves
    usual: float  # their median; 0 without any
    ratio: float = 1.0  # of the rate to the usual one
    suspect: bool = False  # low enough to be measured again
    slower: bool = False  # low enough to be called so
    since: int = 0  # place in the series at which the present fall began

    @property
    def judged(self) -> bool:
        """Whether the history is long enough for a verdict."""
        return self.runs >= FEWEST


def judge(rates: Sequence[float]) -> Speed:
    """Judge the last of some rates by those before it, oldest first.

    A run that was slower does not join the history, so that it never becomes usual.
    """
    history: list[float] = []  # sorted
    before, since = 1.0, 0  # ratio of the run before; where the fall began
    speed = Speed(0, 0.0)
    for place, rate in enumerate(rates):
        middle = len(history) // 2
        usual = (history[middle] + history[~middle]) / 2 if history else 0.0
        speed = Speed(len(history), usual)
        if speed.judged:
            ratio = rate / usual
            two = math.sqrt(ratio * before) < _TWICE and max(ratio, before) < 1
            if before >= _TWICE:
                since = place
            suspect = two or ratio < _TWICE
            slower = two or ratio < _AT_ONCE
            speed = Speed(len(history), usual, ratio, suspect, slower, since)
        if not speed.slower:
            insort(history, max(rate, 1e-9))
        before = speed.ratio
    return speed


def outliers(rates: Sequence[float]) -> list[int]:
    """Return the places of the rates below those of like devices, beyond their spread."""
    scores = [math.log(max(rate, 1e-9)) for rate in rates]
    middle = median(scores)
    spread = 1.4826 * median(abs(score - middle) for score in scores)  # MAD, normal
    reach = max(_OUTLIER, 3.5 * spread)
    return [place for place, score in enumerate(scores) if middle - score > reach]
