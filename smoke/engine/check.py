"""The parts of a check: what it needs, its measurements, and the limits on them.

Check files import no pytest: the children of the worker import them too, and get no pytest.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoke.engine.finding import fail

if TYPE_CHECKING:
    import torch

    from smoke.engine.child_process import Call
    from smoke.engine.expect import Expect
    from smoke.engine.journal import Journal

    # Each returns "" for yes, otherwise the reason why not, which the report shows.
    When = Callable[[Expect], str]
    # Returns the call that a check of this device will make.
    Beside = Callable[[Expect, torch.device], Call]
    Capability = Callable[[torch.device], str]
    Function = Callable[..., None]

# All other checks on the device are reported as blocked when this one fails.
DEVICE = "device.ready"
# The one check that is no test function: torch can end the process while it is imported, so the
# worker does and journals this before pytest, whose collection imports torch.
IMPORT = {
    "id": "identity.import",
    "title": "torch and the modules that extend it can be imported.",
    "stands_for": "sd-scripts dies while it imports intel_extension_for_pytorch",
}


@dataclass(frozen=True)
class Check:
    """What the suite has of a check; for the attributes see `check`."""

    identifier: str
    stands_for: str
    when: When
    needs: tuple[Capability, ...]
    full: bool
    beside: Beside | None


def always(_expect: Expect) -> str:
    """Apply to every target."""
    return ""


def on_gpu(expect: Expect) -> str:
    """Apply to targets with a device besides the CPU."""
    return "" if expect.on_gpu else "only for targets with a GPU"


def needs_package(name: str) -> When:
    """Apply to targets that lock a distribution of this normalised name."""

    def when(expect: Expect) -> str:
        return "" if expect.locks(name) else f"needs {name}, which is not locked"

    return when


def since(name: str, *release: int) -> When:
    """Apply where a library is locked, from a release on: older ones are not known."""

    def when(expect: Expect) -> str:
        if expect.locks(name) and expect.release(name) < release:
            return f"older than {name} {release}"
        return needs_package(name)(expect)

    return when


def check(
    identifier: str,
    *,
    stands_for: str,
    when: When = always,
    needs: Sequence[Capability] = (),
    full: bool = False,
    beside: Beside | None = None,
) -> Callable[[Function], Function]:
    """Mark a function as a smoke check; its docstring says what it proves.

    Args:
        identifier: Stable id, ``area.name``: reports are compared by it.
        stands_for: The failure in the field that this check would have caught.
        when: Why a target does not require it, "" where it does. A required check that
            neither passes nor fails breaks the run; none is skipped.
        needs: Capabilities of the device that it takes: each returns why the device lacks it, ""
            where it is present. They are probed on the device, once in a run.
        full: Whether it belongs to the full suite only.
        beside: Its call in a fresh process, which is made beside the checks before it once the
            device is ready.
    """

    def mark(function: Function) -> Function:
        marked = Check(identifier, stands_for, when, tuple(needs), full, beside)
        function.check = marked  # type: ignore[attr-defined]
        return function

    return mark


class Unmeasured(Exception):  # noqa: N818
    """Why a value is not measured: nothing tells it, or this user may not read it."""


class Numbers:
    """The measurements of one check, each with its unit, and why others are not measured."""

    def __init__(self, journal: Journal, least: float = 0.0) -> None:
        self.journal = journal
        self._least = least  # error that torch allows on the device
        self.values: dict[str, dict[str, Any]] = {}
        self.missing: dict[str, str] = {}
        # What the device refuses in a release for which nobody wrote down what it offers.
        self.unknown: list[str] = []
        self.on_cpu: set[str] = set()  # operators that the CPU computed for the device

    @contextmanager
    def measuring(self, name: str) -> Iterator[None]:
        """Keep the reason if the value can't be measured."""
        try:
            yield
        except Unmeasured as reason:
            self.missing[name] = str(reason)

    def step(self, words: str) -> None:
        """Journal the next operation; the finding names it if the process dies or hangs there."""
        self.journal.write(step=words)

    def record(self, name: str, value: float, unit: str) -> None:
        """Store one measurement; the unit of a ratio is ``1``."""
        self.values[name] = {"value": value, "unit": unit}

    def sample(
        self, name: str, values: Sequence[float], unit: str, every: float = 0.0
    ) -> float:
        """Store repeated measurements and their spread (max - min); return their median.

        The comparison of reports needs each round: bursts of load show in their distribution.
        Rounds that follow each other by ``every`` seconds are a course, which the report draws.
        """
        median = statistics.median(values)
        self.values[name] = {
            "value": median,
            "unit": unit,
            "spread": max(values) - min(values),
            "rounds": [float(f"{value:.5g}") for value in values],
        }
        if every:
            self.values[name]["every"] = every
        return median

    def within(self, name: str, error: float, limit: float) -> None:
        """Store a relative error, and fail the check if it is above its limit or not a number.

        Raises:
            CheckFailed: ``wrong-numbers``.
        """
        if limit:  # 0 asks for exact results
            limit = max(limit, self._least)
        self.values[name] = {"value": error, "unit": "1", "limit": limit}
        if error <= limit:  # false for nan, too
            return
        evidence = []
        for key, entry in self.values.items():
            evidence.append(f"{key} = {entry['value']:.3g}")
        fail(
            "wrong-numbers",
            f"{name}: relative error {error:.2g}, the limit is {limit:.2g}",
            evidence,
            cause="the result on the device differs from the float64 reference on the CPU",
            remedy="compare driver and runtime with the last good report of this machine",
        )
