"""Which recorded numbers are compared with earlier ones, and how.

Rates are speed, which `provision.report.trend` evaluates. Errors, memory and the number of
devices are truth: each is compared with its own last good result. All others inform.
"""

from collections.abc import Iterable

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


def worse(name: str, now: Measurement, standard: Measurement) -> str:
    """The code of the finding that a number calls for; "" if it is as good."""
    if now.limit is not None:
        rounding = NEGLIGIBLE * now.limit
        allowed = ERROR_GROWS * max(standard.value, rounding)
        if max(now.value, rounding) > allowed:
            return "accuracy-lost"
    elif (name, now.unit) == ("memory", "GiB"):
        if now.value * MEMORY_SHRINKS < standard.value:
            return "less-memory"
    elif (name, now.unit) == ("count", "count") and now.value < standard.value:
        return "fewer-devices"
    return ""


def with_better_speeds(
    checks: Iterable[Check], again: Iterable[Check]
) -> tuple[Check, ...]:
    """Take the better of two measurements of each rate; all else stays."""
    repeated = {check.id: check for check in again if check.outcome != "failed"}
    merged: list[Check] = []
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
