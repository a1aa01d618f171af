"""Which recorded numbers are compared with earlier ones, and how.

Rates are speed, which `provision.report.trend` evaluates. Errors, memory and the number of
devices are truth: each is compared with its own last good result. All others inform.
"""

from collections.abc import Iterable
from typing import NamedTuple

from provision.report.limits import ERROR_GROWS, MEMORY_SHRINKS, NEGLIGIBLE
from provision.report.model import Check, Measurement


def is_rate(number: Measurement) -> bool:
    """Whether a number is a speed."""
    return number.comparable and number.unit.endswith("/s")


def number_of(check: Check, name: str, unit: str) -> Measurement | None:
    """A number of a check; None if it is absent, or not comparable with a unit."""
    number = check.numbers.get(name)
    if number and number.comparable and number.unit == unit:
        return number
    return None


class Kind(NamedTuple):
    """What decides how a number is compared: its name in its check, its unit, its limit or none."""

    name: str
    unit: str
    limit: float | None


def kind_of(name: str, number: Measurement) -> Kind:
    """Return the kind of a number of a check."""
    return Kind(name, number.unit, number.limit)


def worse(kind: Kind, value: float, standard: float) -> str:
    """The code of the finding that a number calls for beside its standard; "" if it is as good."""
    name, unit, limit = kind
    if limit is not None:
        rounding = NEGLIGIBLE * limit
        if max(value, rounding) > ERROR_GROWS * max(standard, rounding):
            return "accuracy-lost"
    elif (name, unit) == ("memory", "GiB"):
        if value * MEMORY_SHRINKS < standard:
            return "less-memory"
    elif (name, unit) == ("count", "count") and value < standard:
        return "fewer-devices"
    return ""


def with_better_speeds(
    checks: Iterable[Check], again: Iterable[Check]
) -> tuple[Check, ...]:
    """Take the better of two measurements of each rate; all else stays."""
    repeated = {check.id: check for check in again if check.outcome != "failed"}
    merged = []
    for check in checks:
        numbers = dict(check.numbers)
        for name, first in check.numbers.items():
            second = None
            if check.id in repeated and is_rate(first):
                second = number_of(repeated[check.id], name, first.unit)
            if second:
                least = min(first.again or first.value, first.value, second.value)
                best = max(first, second, key=lambda number: number.value)
                numbers[name] = best.model_copy(update={"again": least})
        merged.append(check.model_copy(update={"numbers": numbers}))
    return tuple(merged)
