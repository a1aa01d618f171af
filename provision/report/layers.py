"""The layers of a host, and which of them changed between two runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from provision.report.model import Report
from provision.report.verdict import Verdict


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A layer of the host, or the lock, before and after it changed; None where it is absent."""

    layer: str
    """Name of the layer."""
    before: str | None
    """Its version; null where it was absent."""
    after: str | None
    """Its version; null where it is absent."""

    def __str__(self) -> str:
        return f"{self.layer}: {self.before or 'absent'} -> {self.after or 'absent'}"


def changed_layers(
    before: Report | Verdict, stack: dict[str, str], lock: str | None
) -> tuple[LayerChange, ...]:
    """Return which layers differ between a report and a machine as it is now."""
    # 16 digits tell two locks apart, and a person has to read them.
    old = before.stack | ({"lock": before.lock[:16]} if before.lock else {})
    new = stack | ({"lock": lock[:16]} if lock else {})
    layers = [*old, *(layer for layer in new if layer not in old)]
    moves = (LayerChange(layer, old.get(layer), new.get(layer)) for layer in layers)
    return tuple(move for move in moves if move.before != move.after)


def cause_of(before: Report, until: Report, earlier: Sequence[Report]) -> str:
    """Name what changed between two reports; else the last change that is known."""
    if moved := changed_layers(before, until.stack, until.lock):
        return "; ".join(map(str, moved))
    nothing = (
        "nothing that is recorded changed on this host: look at load, heat and power"
    )
    known = [report for report in earlier if report.started <= until.started]
    for old, new in reversed([*pairwise(known)]):
        if moved := changed_layers(old, new.stack, new.lock):
            changes = "; ".join(map(str, moved))
            return f"{nothing}; the last change, {new.started}: {changes}"
    return nothing
