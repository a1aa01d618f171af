"""Whether the newest of a series of rates is slower than the host is used to.

Why these rules, and what they find and leave alone: docs/decisions/14-judging-numbers.md.
"""

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FEWEST = 8  # earlier runs; fewer say too little about the noise of a host
# Depths below the median, as logarithms.
TOLERANCE = math.log(1 / 0.85)  # a rate may fall by 15 %
_AT_ONCE = 1.25 * TOLERANCE  # the least that one run, measured twice, can show
_NOISES = 2.0  # standard deviations between runs, for the same
_NOISES_OF_TWO = 1.2  # for the mean of two runs in a row


@dataclass(frozen=True, slots=True)
class Speed:
    """A rate beside the median of the runs before it; rates have the unit of the series."""

    value: float
    runs: int  # earlier ones that were not slower themselves
    usual: float  # their median; 0 without any
    suspect: bool = False  # low enough to be measured again
    slower: bool = False  # low enough to be called so
    since: int = 0  # place in the series at which the present fall began

    @property
    def judged(self) -> bool:
        """Whether the history is long enough for a verdict."""
        return self.runs >= FEWEST

    @property
    def ratio(self) -> float:
        """The part of the usual rate; 1 without a history."""
        return self.value / self.usual if self.usual else 1.0


def judge(rates: Sequence[float]) -> Speed:
    """Judge the last of some rates by those before it, oldest first.

    A run that was slower does not join the history, so that it never becomes usual.
    """
    history = _History()
    before, since = 0.0, 0  # depth of the last run; where the fall began
    for place, rate in enumerate(rates):
        score = math.log(max(rate, 1e-9))
        runs = len(history.scores)
        level = history.middle if runs else score
        speed = Speed(rate, runs, math.exp(level) if runs else 0.0)
        depth = level - score
        if speed.judged:
            noise = history.deviation * math.sqrt(1 + math.pi / 2 / runs)
            suspect = depth > TOLERANCE
            at_once = depth > max(_AT_ONCE, _NOISES * noise)
            of_two = (before + depth) / 2
            lasting = of_two > max(TOLERANCE, _NOISES_OF_TWO * noise)
            if before <= TOLERANCE:
                since = place
            slower = suspect and (at_once or lasting)
            speed = Speed(rate, runs, speed.usual, suspect, slower, since)
        if not speed.slower:
            history.add(score)
        before = depth
    return speed


class _History:
    """Sorted scores, with what a long history would be slow to compute anew."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self._sum = 0.0
        self._squares = 0.0

    def add(self, score: float) -> None:
        insort(self.scores, score)
        self._sum += score
        self._squares += score * score

    @property
    def middle(self) -> float:
        """The median."""
        half, odd = divmod(len(self.scores), 2)
        if odd:
            return self.scores[half]
        return (self.scores[half - 1] + self.scores[half]) / 2

    @property
    def deviation(self) -> float:
        """The standard deviation of a sample of two or more."""
        count = len(self.scores)
        above = self._squares - self._sum * self._sum / count
        return math.sqrt(max(above, 0.0) / (count - 1))


def outliers(rates: Sequence[float]) -> list[int]:
    """Return the places of the rates below those of like devices, beyond their spread."""
    scores = [math.log(max(rate, 1e-9)) for rate in rates]
    middle = median(scores)
    spread = 1.4826 * median(abs(score - middle) for score in scores)  # MAD, normal
    reach = max(TOLERANCE, 3.5 * spread)
    return [place for place, score in enumerate(scores) if middle - score > reach]
