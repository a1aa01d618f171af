"""The parts of a check: its pytest mark, its measurements, and the limits on them."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

from smoke.finding import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smoke.expect import Expect
    from smoke.journal import Journal

# All other checks on the device are reported as blocked when this one fails.
DEVICE = "device.ready"


def always(_expect: Expect) -> bool:
    """Apply to every target."""
    return True


def check(
    identifier: str,
    *,
    stands_for: str,
    when: Callable[[Expect], bool] = always,
    full: bool = False,
) -> pytest.MarkDecorator:
    """Mark a function as a smoke check; its docstring says what it proves.

    Args:
        identifier: Stable id, ``area.name``: reports are compared by it.
        stands_for: The failure in the field that this check would have caught.
        when: Whether it applies to a target. A check that applies passes or fails; none is skipped.
        full: Whether it belongs to the full suite only.
    """
    return pytest.mark.check(identifier, stands_for=stands_for, when=when, full=full)


class Numbers:
    """The measurements of one check, each with its unit."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.values: dict[str, dict[str, Any]] = {}

    def step(self, words: str) -> None:
        """Journal the next operation; the finding names it if the process dies or hangs there."""
        self._journal.write(step=words)

    def record(self, name: str, value: float, unit: str) -> None:
        """Store one measurement; the unit of a ratio is ``1``."""
        self.values[name] = {"value": value, "unit": unit}

    def sample(self, name: str, values: Sequence[float], unit: str) -> float:
        """Store repeated measurements and their spread (max - min); return their median.

        The comparison of reports needs each round: bursts of load show in their distribution.
        """
        middle = statistics.median(values)
        spread = max(values) - min(values)
        rounds = [float(f"{value:.5g}") for value in values]
        self.values[name] = {"value": middle, "unit": unit, "spread": spread, "rounds": rounds}
        return middle

    def within(self, name: str, error: float, limit: float) -> None:
        """Store a relative error, and fail the check if it is above its limit or not a number.

        Raises:
            CheckFailed: ``wrong-numbers``.
        """
        self.values[name] = {"value": error, "unit": "1", "limit": limit}
        if not error <= limit:  # also true for nan
            fail(
                "wrong-numbers",
                f"{name}: relative error {error:.2g}, the limit is {limit:.2g}",
                cause="the result on the device differs from the float64 reference on the CPU",
                remedy="compare driver and runtime with the last good report of this machine",
                evidence=[f"{key} = {entry['value']:.3g}" for key, entry in self.values.items()],
            )
