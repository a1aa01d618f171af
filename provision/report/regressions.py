"""What changed since the last good report: on the host first, then in what the checks say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.core.findings import Finding, Level, worst_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.report.model import Check, Measurement, Report

# A rate counts as slower when it fell by more than the noise of both runs, and by more than this
# part of itself. CPU against CPU, in one process, was seen between 0.56 and 1.13 of itself.
_SPREADS = 3.0
_TOLERANCE = {"cpu": 0.55, "gpu": 0.25}


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A layer of the host, or the lock, that is another than it was; None where it is absent."""

    layer: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.layer}: {self.before or 'absent'} -> {self.after or 'absent'}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A report beside its baseline.

    Attributes:
        target: Whose.
        since: When the baseline was measured, ISO 8601.
        moves: What changed on the host.
        findings: What broke, vanished, slowed or healed; worst first.
    """

    target: str
    since: str
    moves: tuple[LayerChange, ...]
    findings: tuple[Finding, ...]

    @property
    def bad(self) -> bool:
        """Whether anything got worse."""
        return any(finding.bad for finding in self.findings)


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """A run of the checks, beside its baseline where there is one."""

    report: Report
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class SmokeSkipped:
    """Nothing was run, because nothing changed since the last report."""

    target: str
    since: str
    failed: int


def changed_layers(
    before: Report, stack: dict[str, str], lock: str | None
) -> tuple[LayerChange, ...]:
    """Return which layers differ between a report and a machine as it is now."""
    old = before.stack | ({"lock": before.lock[:16]} if before.lock else {})
    new = stack | ({"lock": lock[:16]} if lock else {})
    layers = [*old, *(layer for layer in new if layer not in old)]
    return tuple(
        LayerChange(layer, old.get(layer), new.get(layer))
        for layer in layers
        if old.get(layer) != new.get(layer)
    )


def compare_reports(before: Report, after: Report) -> Comparison:
    """Compare a report with its baseline."""
    moved = changed_layers(before, after.stack, after.lock)
    cause = "; ".join(map(str, moved)) or (
        "nothing that is recorded changed on this host: look at load, heat and power limits"
    )
    found = list(_findings(before, after, cause))
    return Comparison(after.target, before.started, moved, tuple(worst_first(found)))


def _findings(before: Report, after: Report, cause: str) -> Iterator[Finding]:
    now = {check.id: check for check in after.checks}
    kind = "gpu" if "driver" in after.device else "cpu"
    for old in before.checks:
        new = now.get(old.id)
        if new is None:
            yield _finding("check-vanished", f"{old.id} is not run any more", cause, old.title)
        elif old.outcome != new.outcome:
            yield _turned(old, new, cause)
        else:
            yield from _slowed(old, new, cause, _TOLERANCE[kind])


def _turned(old: Check, new: Check, cause: str) -> Finding:
    if new.outcome == "passed":
        evidence = old.finding.symptom if old.finding else old.title
        return _finding("check-healed", f"{new.id} works again", cause, evidence, Level.NOTE)
    evidence = new.finding.symptom if new.finding else new.title
    return _finding("check-broke", f"{new.id} worked and fails now", cause, evidence)


def _slowed(old: Check, new: Check, cause: str, tolerance: float) -> Iterator[Finding]:
    for name, then in old.numbers.items():
        now = new.numbers.get(name)
        if now and then.unit.endswith("/s") and then.spread is not None:
            fall = then.value - now.value
            if fall > max(_SPREADS * _noise(then, now), tolerance * then.value):
                symptom = f"{new.id}: {name} fell to {now.value / then.value:.0%}"
                evidence = f"{then.value:.4g} {then.unit} -> {now.value:.4g} {now.unit}"
                yield _finding("slowed", symptom, cause, evidence)


def _noise(then: Measurement, now: Measurement) -> float:
    return max(then.spread or 0.0, now.spread or 0.0)


def _finding(
    code: str, symptom: str, cause: str, evidence: str, level: Level = Level.ERROR
) -> Finding:
    remedy = (
        "nothing to do"
        if level is Level.NOTE
        else "go back to the layer that moved, or `provision doctor` for what is wrong with it"
    )
    return Finding(code, level, symptom, cause, remedy, (evidence,))
