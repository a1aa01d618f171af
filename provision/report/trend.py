"""Whether the newest of a series of measurements is worse than the best that the host has shown.

How it is judged, and after whom: docs/decisions/14-judging-numbers.md. All values are compared as
logarithms, with their sign turned where less is better: a score is higher when it is better.
"""

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

_SIGMAS = 2.8  # below the upper quartile, hence 3.5 below the median of normal noise
_DIP_MARGIN = 1.2  # the deepest dip seen so far is rarely the deepest there is
_UNDISTURBED = (
    0.9  # of the usual share of the CPU; below it, training was seen at 0.74 of itself
)
_ENOUGH = 5  # differences; fewer say too little about the noise between runs
_SEVERAL = 3  # dips make a host unsteady; one or two happen by chance in a hundred runs
_BURSTS = 0.03  # of all rounds, from which on a host is called unsteady
_FEW = (
    0.1  # of the rounds of a run: in bursts, they hardly move median and upper quartile
)
_BURST = 0.5  # below its median, as a logarithm: five sigma at 10 % noise
_MAD = 1.4826  # MAD to standard deviation, for normal noise
_MEDIAN_ERROR = 1.2533  # sqrt(pi / 2): standard error of a median, to that of a mean
_RANGE_OF_FIVE = 2.326  # range of five normal values, to their standard deviation (d2)
_DIFFERENCE = (
    1.627  # upper quartile of |difference| of two normal values, to their deviation
)


class Point(NamedTuple):
    """One measurement of a series."""

    score: float  # logarithm of the median; higher is better
    upper: float  # the same of the upper quartile of the rounds
    error: float  # standard error of the score from the rounds; 0 where nothing was repeated
    layers: object  # the state of the host and the lock; equal where nothing changed
    share: float | None = (
        None  # CPU seconds per second that the process was given, if recorded
    )
    rounds: int = 1
    bursts: int = 0  # rounds far below the median


class Fall(NamedTuple):
    """The distance of a point below the level."""

    level: float  # score of the standard
    depth: float  # logarithm of the ratio
    reach: float  # what counts as noise
    doubtful: bool  # whether the host was too busy or unsteady to judge it by one run
    since: int  # index of the first point of the present fall


def point(
    rounds: Sequence[float],
    layers: object,
    better: int,
    share: float | None,
    spread: float | None,
) -> Point:
    """Return the point of a run: of all rounds, or of the median and the ``spread`` of five.

    ``better`` is 1 where more is better, -1 where less is; the spread is relative to the median.
    """
    scores = sorted(better * math.log(value) for value in rounds)
    middle = median(scores)
    scale, count = _MAD * median(abs(score - middle) for score in scores), len(scores)
    if spread:
        scale, count = spread / _RANGE_OF_FIVE, 5
    error = _MEDIAN_ERROR * scale / math.sqrt(count)
    bursts = sum(score < middle - _BURST for score in scores)
    return Point(
        middle, upper_quartile(scores), error, layers, share, len(scores), bursts
    )


def upper_quartile(ordered: Sequence[float]) -> float:
    """Return the upper quartile of sorted values, interpolated (Hyndman and Fan, type 7)."""
    place = 0.75 * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def judge(points: Sequence[Point], tolerance: float) -> Fall | None:
    """Return the fall of the last point, more than the tolerance, a logarithm; else None."""
    shares = sorted(each.share for each in points if each.share is not None)
    usual = upper_quartile(shares) if shares else 0.0
    history, fall, busy = _History(tolerance), None, False
    last = len(points) - 1
    for index, each in enumerate(points):
        busy = each.share is not None and each.share < _UNDISTURBED * usual
        # A busy run is neither standard nor noise: it says nothing about the device.
        if not busy or (index == last and history.scores):
            fall = history.take(index, each)
    return fall._replace(doubtful=True, since=last) if fall and busy else fall


def outliers(points: Sequence[Point], tolerance: float) -> Iterator[tuple[int, Fall]]:
    """Yield the points of like devices that lie below the level of all, each with its place."""
    # The noise is the spread from device to device here; a busy host is not judged.
    scores, uppers = (
        sorted(each.score for each in points),
        sorted(each.upper for each in points),
    )
    shares = sorted(each.share for each in points if each.share is not None)
    middle, usual = median(scores), upper_quartile(shares) if shares else 0.0
    apart = _MAD * median(abs(score - middle) for score in scores)
    for place, each in enumerate(points):
        reach = max(tolerance, _SIGMAS * math.hypot(apart, each.error))
        depth = min(
            upper_quartile(scores) - each.score, upper_quartile(uppers) - each.upper
        )
        busy = each.share is not None and each.share < _UNDISTURBED * usual
        if depth > reach and not busy:
            yield (
                place,
                Fall(upper_quartile(scores), depth, reach, doubtful=False, since=place),
            )


@dataclass
class _History:
    """The accepted points, each list sorted, and the falls since the last of them."""

    tolerance: float
    scores: list[float] = field(default_factory=list)
    uppers: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)
    last: float | None = None
    rounds: int = 0
    bursts: int = 0
    fallen: list[tuple[int, float, object]] = field(default_factory=list)
    dips: list[float] = field(default_factory=list)
    longest: int = 0

    def take(self, index: int, new: Point) -> Fall | None:
        """Judge a point by the earlier ones, then add it to them."""
        if not self.scores:
            self._accept(new)
            return None
        level = upper_quartile(self.scores)
        # Both have to fall: see ``fall`` in the docstring of this module.
        depth = min(level - new.score, upper_quartile(self.uppers) - new.upper)
        plain = max(self.tolerance, _SIGMAS * self._noise(new))
        self.rounds += new.rounds
        self.bursts += new.bursts
        if depth <= plain:
            # One under other layers ended because a layer changed, and says nothing about noise.
            dips = [depth for _, depth, layers in self.fallen if layers == new.layers]
            self.dips += dips
            self.longest = max(self.longest, len(dips))
            self.fallen.clear()
            self._accept(new)
            return None
        # Kept apart until the next recovery, which shows whether it was a dip.
        self.fallen.append((index, depth, new.layers))
        reach = max(plain, _DIP_MARGIN * max(self.dips, default=0.0))
        lasting = len(self.fallen) > 2 * self.longest + 2
        if depth <= reach and not lasting:
            return None
        undisturbed = new.share is not None and new.bursts <= _FEW * new.rounds
        doubtful = len(self.fallen) == 1 and not undisturbed and self._unsteady(depth)
        return Fall(level, depth, reach, doubtful, self.fallen[0][0])

    def _accept(self, new: Point) -> None:
        if self.last is not None:
            insort(self.differences, abs(new.score - self.last))
        self.last = new.score
        insort(self.scores, new.score)
        insort(self.uppers, new.upper)
        insort(self.errors, new.error)

    def _noise(self, new: Point) -> float:
        within = math.hypot(new.error, median(self.errors))
        enough = len(self.differences) >= _ENOUGH
        between = upper_quartile(self.differences) / _DIFFERENCE if enough else 0.0
        return max(within, between)

    def _unsteady(self, depth: float) -> bool:
        """Whether dips or bursts were seen that make one slow run no proof."""
        dips = len(self.dips) >= _SEVERAL and depth <= 2 * max(self.dips)
        return dips or self.bursts > max(1, _BURSTS * self.rounds)
