"""What a check is made of: its mark, the numbers it records, the limits it is held to."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

from smoke.finding import fail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smoke.expect import Expect
    from smoke.journal import Journal

DEVICE = "device.ready"  # the check that all others on the device stand on


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
        when: Whether it applies to a target. One that applies passes or fails, nothing else.
        full: Whether it belongs to the full suite only.
    """
    return pytest.mark.check(identifier, stands_for=stands_for, when=when, full=full)


class Numbers:
    """The measurements of one check, each with its unit."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.values: dict[str, dict[str, Any]] = {}

    def step(self, words: str) -> None:
        """Note what comes next: the last words of a check whose process dies."""
        self._journal.write(step=words)

    def record(self, name: str, value: float, unit: str) -> None:
        """Keep one measurement; the unit of a ratio is ``1``."""
        self.values[name] = {"value": value, "unit": unit}

    def sample(self, name: str, values: Sequence[float], unit: str) -> float:
        """Keep the median of repeated measurements and their spread (max - min); return it."""
        middle = statistics.median(values)
        spread = max(values) - min(values)
        self.values[name] = {"value": middle, "unit": unit, "spread": spread}
        return middle

    def within(self, name: str, error: float, limit: float) -> None:
        """Keep a relative error and end the check if it is above its limit, or not a number.

        Raises:
            CheckFailed: ``wrong-numbers``.
        """
        self.record(name, error, "1")
        if not error <= limit:  # also true for nan
            fail(
                "wrong-numbers",
                f"{name}: relative error {error:.2g}, at most {limit:.2g} is right",
                cause="the device computes something else than the float64 reference on the CPU",
                remedy="compare driver and runtime with the last good report of this machine",
                evidence=[f"{key} = {entry['value']:.3g}" for key, entry in self.values.items()],
            )
