"""The bandwidths of a device beside its own earlier ones, which are reported and decide nothing."""

from collections.abc import Iterable
from statistics import median

from pydantic import computed_field

from provision.report.model import Part, Report

_KEPT = 30  # earlier values: a day or two of a busy runner
_UNITS = {"GB/s", "GiB/s"}


class Speed(Part):
    """One bandwidth of one device."""

    device: str
    """Its name, as torch reports it."""
    check: str
    """Id of the check that measured it."""
    name: str
    """What was measured, such as `memory` or `to device`."""
    value: float
    """Median of some rounds."""
    unit: str
    """`GB/s` or `GiB/s`."""
    earlier: tuple[float, ...] = ()
    """Values of the runs before on this node, oldest first, 30 at most."""
    measured: bool = True
    """Whether this run measured it; else `value` is of the last run that did."""

    @computed_field  # type: ignore[prop-decorator]  # pydantic's own advice, mypy#1362
    @property
    def usual(self) -> float | None:
        """Median of the earlier values; null without any."""
        return median(self.earlier) if self.earlier else None


def speeds_of(report: Report) -> tuple[Speed, ...]:
    """Return the bandwidths of the memory and of the link that a run measured."""
    names = {}
    for device in report.all_devices:
        names[device.get("index", 0)] = device.get("name", "")
    speeds = []
    for check in report.checks:
        index = check.id.partition("@")[2] or "0"
        for name, number in check.numbers.items():
            if number.unit in _UNITS and number.comparable:
                speed = Speed(
                    device=names.get(int(index), ""),
                    check=check.id,
                    name=name,
                    value=number.value,
                    unit=number.unit,
                )
                speeds.append(speed)
    return tuple(speeds)


def continued(speeds: Iterable[Speed], before: Iterable[Speed]) -> tuple[Speed, ...]:
    """Return bandwidths, each with its own earlier values; another device has another history.

    Those that this run did not measure are kept, unless another device was measured in their place.
    """
    history = {}
    before = tuple(before)
    for speed in before:
        history[_key(speed)] = (*speed.earlier, speed.value)[-_KEPT:]
    merged = []
    for speed in speeds:
        earlier = history.get(_key(speed), ())
        merged.append(speed.model_copy(update={"earlier": earlier}))
    measured = {(speed.check, speed.name) for speed in merged}
    for speed in before:
        if (speed.check, speed.name) not in measured:
            merged.append(speed.model_copy(update={"measured": False}))
    return tuple(merged)


def _key(speed: Speed) -> tuple[str, ...]:
    return speed.device, speed.check, speed.name, speed.unit
