"""Courses of numbers over time: which are drawn, and where; ``report.html.j2`` draws them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from provision.report.layers import changed_layers
from provision.report.model import Measurement, Report

_LEVELS, _WIDE = "▁▂▃▄▅▆▇█", 40  # of a sparkline


class Dot(NamedTuple):
    """One run: when, in seconds since 1970, what was measured, and whether its check failed."""

    at: float
    value: float
    failed: bool


@dataclass
class Course:
    """One number of one check over the runs of one suite, oldest first."""

    check: str
    name: str
    number: Measurement  # the newest
    dots: list[Dot]

    @property
    def usual(self) -> float | None:
        """The median of a rate; None of other numbers."""
        if not self.number.unit.endswith("/s"):
            return None
        return median(dot.value for dot in self.dots) or 1.0


class Axes:
    """Time, and values linear from 0 or logarithmic up to an error's limit, in 320 by 130 units."""

    left, right, top, base = 46, 310, 12, 108  # margins, for the labels

    def __init__(self, course: Course) -> None:
        values = [dot.value for dot in course.dots]
        self.first = course.dots[0].at
        self.last = course.dots[-1].at
        self.limit = limit = course.number.limit
        self.low = min(0.0, *values)
        self.high = max(0.0, *values) or 1.0
        if limit:
            # An error of 0 has no logarithm: the axis ends six decades below the limit at least.
            smallest = min((value for value in values if value > 0), default=limit)
            self.low = max(min(smallest, limit / 10) / 2, limit * 1e-6)
            self.high = max(*values, limit) * 2

    def x(self, at: float) -> int:
        """Return the place of a time."""
        past = self.last - self.first
        share = 0.5
        if past > 0:
            share = (at - self.first) / past
        return round(self.left + share * (self.right - self.left))

    def y(self, value: float) -> int:
        """Return the place of a value."""
        if self.limit:
            decades = math.log(self.high / self.low)
            share = math.log(max(value, self.low) / self.low) / decades
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.base - share * (self.base - self.top))


def courses_of(runs: Sequence[Report]) -> list[Course]:
    """Return the rates, times and errors of some runs; counts hardly change."""
    courses: dict[tuple[str, str, str], Course] = {}
    for report in runs:
        at = seconds(report.started)
        for check in report.checks:
            for name, number in check.numbers.items():
                drawn = number.unit.endswith("/s") or number.unit in {"s", "1"}
                if drawn and number.comparable:
                    key = (check.id, name, number.unit)
                    course = courses.setdefault(key, Course(check.id, name, number, []))
                    failed = check.outcome == "failed"
                    course.dots.append(Dot(at, number.value, failed))
                    course.number = number
    return list(courses.values())


def within_run(report: Report) -> list[Course]:
    """Return how the numbers of a load went within one run; times in seconds since its start."""
    courses = []
    for check in report.checks:
        for name, number in check.numbers.items():
            if number.every and number.comparable and number.rounds:
                course = Course(check.id, name, number, [])
                for index, value in enumerate(number.rounds):
                    course.dots.append(Dot(index * number.every, value, failed=False))
                courses.append(course)
    return courses


def sparkline(values: Sequence[float]) -> str:
    """Return the course of some values as characters, each the mean of its part."""
    means = []
    start = 0
    for place in range(_WIDE):
        end = len(values) * (place + 1) // _WIDE
        if start < end:
            means.append(sum(values[start:end]) / (end - start))
        start = end
    low = min(means)
    step = (max(means) - low) / (len(_LEVELS) - 1) or 1.0
    return "".join(_LEVELS[round((mean - low) / step)] for mean in means)


def layer_changes(runs: Sequence[Report]) -> list[float]:
    """Return when the host or the lock changed between two runs, in seconds since 1970."""
    changes = []
    for before, after in pairwise(runs):
        if changed_layers(before, after.stack, after.lock):
            changes.append(seconds(after.started))
    return changes


def seconds(moment: str) -> float:
    """Return an ISO 8601 time of a report as seconds since 1970."""
    return dt.datetime.fromisoformat(moment).timestamp()


def day(at: float) -> str:
    """Return the date, UTC."""
    return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d}"
