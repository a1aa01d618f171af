"""Courses of numbers over time: which are drawn, and each with its caption."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from provision.report.trend import upper_quartile
from provision.ui.html_style import escape
from provision.ui.plot import Dot, plot, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from provision.report.model import Measurement, Report


class Course(NamedTuple):
    """One number of one check over the runs of one suite."""

    check: str
    name: str
    number: Measurement  # the newest
    dots: list[Dot]


def courses_of(runs: Sequence[Report]) -> list[Course]:
    """Return the rates, times and errors of some runs; counts hardly change."""
    found: dict[tuple[str, str, str], Course] = {}
    for report in runs:
        at = seconds(report.started)
        for check in report.checks:
            for name, number in check.numbers.items():
                drawn = number.unit.endswith("/s") or number.unit in {"s", "1"}
                if drawn and math.isfinite(number.value):
                    course = found.setdefault(
                        (check.id, name, number.unit), Course(check.id, name, number, [])
                    )
                    course.dots.append(Dot(at, number.value, check.outcome == "failed"))
                    found[check.id, name, number.unit] = course._replace(number=number)
    return list(found.values())


def layer_changes(runs: Sequence[Report]) -> list[float]:
    """Return when the host or the lock changed between two runs, in seconds since 1970."""
    layers = [(seconds(run.started), run.stack, run.lock) for run in runs]
    return [new[0] for old, new in pairwise(layers) if old[1:] != new[1:]]


def figures(courses: Iterable[Course], changes: Sequence[float], kind: str = "plots") -> str:
    """Return the drawings of some courses; ``kind`` is the class of their grid."""
    return f"<div class='{kind}'>{''.join(_figure(course, changes) for course in courses)}</div>"


def _figure(course: Course, changes: Sequence[float]) -> str:
    value = amount(course.number)
    words = ""
    if course.number.unit.endswith("/s"):
        best = upper_quartile(sorted(dot.value for dot in course.dots)) or 1.0
        words = f"{course.dots[-1].value / best:.0%} of the best quarter of {len(course.dots)} runs"
    label = f"{course.check} {course.name}: {value}"
    drawn = plot(course.dots, changes, label, course.number.limit)
    return (
        f"<figure><figcaption><code>{escape(course.check)}</code> {escape(course.name)}<br>"
        f"<b>{value}</b> <span class=soft>{words}</span></figcaption>"
        f"{drawn}</figure>"
    )


def amount(number: Measurement) -> str:
    """Return a value with its unit; ratios and errors have none."""
    return f"{number.value:.4g} {'' if number.unit == '1' else escape(number.unit)}".rstrip()
