"""The layers of a host, and which of them changed between two runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from provision.host.model import NOT_KNOWN
from provision.report.model import Report
from provision.report.verdict import Verdict

_NOTHING = "nothing that is recorded changed on this host: look at load, heat and power"


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A layer of the host, or the lock, before and after it changed; None where it is absent."""

    layer: str
    """Name of the layer."""
    before: str | None
    """Its version; null where it was absent."""
    after: str | None
    """Its version; null where it is absent."""

    @property
    def is_known(self) -> bool:
        """Whether it can be told: a library's version may be hidden, before or now."""
        versions = (self.before, self.after)
        return "" not in versions and NOT_KNOWN not in versions

    def __str__(self) -> str:
        return f"{self.layer}: {self.before or 'absent'} -> {self.after or 'absent'}"


def changed_layers(
    before: Report | Verdict, stack: dict[str, str], lock: str | None
) -> tuple[LayerChange, ...]:
    """The layers that differ between a report and a machine as it is now."""
    old, new = _with_lock(before.stack, before.lock), _with_lock(stack, lock)
    changes = []
    for layer in old | new:
        change = LayerChange(layer, old.get(layer), new.get(layer))
        if change.before != change.after and change.is_known:
            changes.append(change)
    return tuple(changes)


def _with_lock(stack: dict[str, str], lock: str | None) -> dict[str, str]:
    """Return layers with the lock among them, if there is one."""
    if not lock:
        return stack
    # 16 digits tell two locks apart, and a person has to read them.
    return stack | {"lock": lock[:16]}


def cause_of(before: Report, until: Report, earlier: Sequence[Report]) -> str:
    """Name what changed between two reports; else the last change that is known."""
    if changes := changed_layers(before, until.stack, until.lock):
        return "; ".join(map(str, changes))
    last = ""
    for old, new in pairwise(earlier):
        changes = changed_layers(old, new.stack, new.lock)
        if changes and new.started <= until.started:
            last = f"; the last change, {new.started}: {'; '.join(map(str, changes))}"
    return _NOTHING + last
