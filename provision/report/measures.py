"""Which recorded numbers are compared with earlier ones, and how.

Rates are speed, which `provision.report.trend` judges. Errors, memory and the number of
devices are truth: each is compared with its own last good result. All others inform.
"""

from collections.abc import Iterable

from provision.report.model import Check, Measurement

# Another kernel for the same operation stays within two of each other.
_ERROR_GROWS = 3.0
_NEGLIGIBLE = 0.01  # of its limit: an error below is rounding
_MEMORY_SHRINKS = 1.02  # drivers reserve some


def is_rate(number: Measurement) -> bool:
    """Whether a number is a speed."""
    return number.comparable and number.unit.endswith("/s")


def number_of(check: Check, name: str, unit: str) -> Measurement | None:
    """Return a number of a check, None if it is absent, or not comparable with a unit."""
    number = check.numbers.get(name)
    if number is None or not number.comparable or number.unit != unit:
        return None
    return number


def worse(name: str, now: Measurement, standard: Measurement) -> str:
    """Return the code of the finding that a number calls for; "" if it is as good."""
    if now.limit is not None:
        rounding = _NEGLIGIBLE * now.limit
        allowed = _ERROR_GROWS * max(standard.value, rounding)
        return "accuracy-lost" if max(now.value, rounding) > allowed else ""
    if (name, now.unit) == ("memory", "GiB"):
        least = standard.value / _MEMORY_SHRINKS
        return "less-memory" if now.value < least else ""
    if (name, now.unit) == ("count", "count"):
        return "fewer-devices" if now.value < standard.value else ""
    return ""


def with_better_speeds(
    checks: Iterable[Check], again: Iterable[Check]
) -> tuple[Check, ...]:
    """Return checks with the better of two measurements of each rate; all else stays."""
    repeated = {check.id: check for check in again if check.outcome != "failed"}
    merged: list[Check] = []
    for check in checks:
        numbers = dict(check.numbers)
        for name, first in check.numbers.items():
            other = repeated.get(check.id)
            number = number_of(other, name, first.unit) if other else None
            if number is None or not is_rate(first):
                continue
            least = min(first.again or first.value, first.value, number.value)
            better = number if number.value > first.value else first
            numbers[name] = better.model_copy(update={"again": least})
        merged.append(check.model_copy(update={"numbers": numbers}))
    return tuple(merged)
