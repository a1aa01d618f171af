"""Which recorded numbers are compared, in which direction, and the series that they form."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from provision.report.model import Check, Measurement, Report
from provision.report.trend import Point, point

DURATION = "duration"  # of the check itself
_NEGLIGIBLE = 0.01  # of its limit: an error below is rounding


class Kind(NamedTuple):
    """How one kind of number is judged."""

    code: str  # of the finding, which findings.toml describes
    better: int  # 1 where more is better, -1 where less is
    tolerance: float  # the ratio that is always accepted
    least: float = (
        0.0  # the difference that is always accepted, in the unit of the number
    )
    exact: bool = (
        False  # whether it has no noise: a dip that passes by itself is a defect then
    )
    timed: bool = False  # whether load, heat and the other checks of the run move it


# The tolerances: a rate may fall by 15 % (a drop of 25 % must be found). An error may triple:
# another kernel for the same operation stays within two of each other. A cold file cache makes the
# first import after a boot several times longer, hence a warning, a factor and seconds.
RATE = Kind("slowed", 1, 1 / 0.85, timed=True)
ERROR = Kind("accuracy-lost", -1, 3.0)
TIME = Kind("takes-longer", -1, 3.0, least=5.0, timed=True)
MEMORY = Kind("less-memory", 1, 1.02, exact=True)
DEVICES = Kind("fewer-devices", 1, 1.0, exact=True)


class Sample(NamedTuple):
    """One point of a series and where it is from."""

    report: Report
    number: Measurement
    point: Point


def kind_of(name: str, number: Measurement) -> Kind | None:
    """Return how a number is judged; None for one that only informs."""
    if number.unit.endswith("/s"):
        return RATE
    if number.limit is not None:
        return ERROR
    return {
        ("import", "s"): TIME,
        (DURATION, "s"): TIME,
        ("memory", "GiB"): MEMORY,
        ("count", "count"): DEVICES,
    }.get((name, number.unit))


def numbers_of(check: Check) -> Iterator[tuple[str, Measurement]]:
    """Yield the numbers of a check, its duration included."""
    # The duration of that check is the import: it would be reported twice.
    for name in [*check.numbers, *([] if "import" in check.numbers else [DURATION])]:
        if number := _number(check, name):
            yield name, number


def _number(check: Check, name: str) -> Measurement | None:
    if name == DURATION:
        return Measurement.model_construct(value=check.seconds, unit="s")
    number = check.numbers.get(name)
    return number if number and number.comparable else None


def series(
    past: Sequence[tuple[Report, Check]],
    name: str,
    kind: Kind,
    unit: str,
    limit: float | None,
) -> list[Sample]:
    """Return the series of one number over the results that passed of a check, oldest first."""
    # Left out: another unit, a timed number of another suite, an error that other code computed.
    last, found = past[-1][0], []
    for index, (report, check) in enumerate(past):
        number = _number(check, name)
        other = kind.timed and report.suite != last.suite
        other |= kind is ERROR and report.files != last.files
        if number is None or number.unit != unit or other:
            continue
        # A device that comes and goes is a defect: no dip of an exact number passes.
        layers = index if kind.exact else (report.stack, report.lock)
        made = scored(
            number, kind, limit, layers, report.cpu_share if kind.timed else None
        )
        found.append(Sample(report, number, made))
    return found


def scored(
    number: Measurement,
    kind: Kind,
    limit: float | None,
    layers: object,
    share: float | None,
) -> Point:
    """Return the point of a number; its errors count from a hundredth of the limit on."""
    least = _NEGLIGIBLE * limit if limit else 1e-9  # a logarithm needs more than 0
    rounds = [max(value, least) for value in number.rounds or (number.value,)]
    spread = (
        None if number.rounds else (number.spread or 0.0) / max(number.value, least)
    )
    return point(rounds, layers, better=kind.better, share=share, spread=spread)
