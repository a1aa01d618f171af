"""How a node differs from its peers: nodes of the same target, suite, device and lock."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from provision.host.model import is_known
from provision.report.limits import FEWEST_NODES
from provision.report.measures import Kind, worse
from provision.report.trend import outliers
from provision.report.verdict import Verdict

# Check, name, unit and limit of each number of a verdict.
Facts = tuple[tuple[str, str, str, float | None], ...]
_Deviation = tuple["Seen", str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A verdict whose numbers take little memory: a fleet of 10,000 nodes has a million of them."""

    verdict: Verdict
    """Without its numbers."""
    facts: Facts
    """Of its numbers; alike nodes share one object."""
    values: "array[float]"
    """Of its numbers."""


@dataclass(slots=True)
class _Column:
    """One number of all nodes that measured it."""

    kinds: list[Kind] = field(default_factory=list)
    members: list[Seen] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def seen(verdict: Verdict, shared: dict[Facts, Facts]) -> Seen:
    """Return a verdict with those of its numbers that can be compared; ``shared`` is of all nodes.

    Others are left out: NaN of one node would be the median of all.
    """
    facts = []
    values = array("d")
    for check, numbers in verdict.numbers.items():
        for name, number in numbers.items():
            if number.comparable:
                facts.append((check, name, number.unit, number.limit))
                values.append(number.value)
    own = tuple(facts)
    bare = verdict.model_copy(update={"numbers": {}})
    return Seen(bare, shared.setdefault(own, own), values)


def deviations(nodes: Iterable[Seen]) -> Iterator[_Deviation]:
    """Yield how nodes differ from their peers; from two nobody can tell which one does."""
    groups: dict[tuple[str | None, ...], list[Seen]] = defaultdict(list)
    for node in nodes:
        verdict = node.verdict
        if verdict.verdict != "none":  # which has no facts
            alike = verdict.target, verdict.suite, verdict.device, verdict.lock
            groups[alike].append(node)
    for members in groups.values():
        if len(members) >= FEWEST_NODES:
            yield from _layers(members)
            yield from _numbers(members)


def _layers(members: Sequence[Seen]) -> Iterator[_Deviation]:
    """Yield who has another version of a layer than more than half of a group has."""
    stacks = [_without_addresses(member.verdict.stack) for member in members]
    layers: dict[str, str] = {}
    for stack in stacks:
        layers |= stack
    for layer in layers:
        versions = [stack.get(layer, "absent") for stack in stacks]
        ((usual, count),) = Counter(versions).most_common(1)
        if 2 * count <= len(members):
            continue
        for member, version in zip(members, versions, strict=True):
            if version != usual and is_known(version) and is_known(usual):
                text = f"{layer} {version}, {usual} on {count} of {len(members)}"
                yield member, text


def _without_addresses(stack: dict[str, str]) -> dict[str, str]:
    """Layers with all GPUs as one, whose addresses differ from machine to machine."""
    layers = {}
    gpus = []
    for layer, version in stack.items():
        if layer.startswith("GPU "):
            gpus.append(version)
        else:
            layers[layer] = version
    return layers | {"GPUs": ", ".join(sorted(gpus)) or "none"}


def _numbers(members: Iterable[Seen]) -> Iterator[_Deviation]:
    """Yield who measured worse than its group, beyond the noise from node to node."""
    for (check, name, unit), column in _columns(members).items():
        if len(column.values) < FEWEST_NODES:
            continue
        middle = median(column.values)
        slow = outliers(column.values) if unit.endswith("/s") else []
        for place in sorted({*slow, *_worse_places(column, middle)}):
            amount = f"{column.values[place]:.4g} {unit.removeprefix('1')}".strip()
            text = f"{check}: {name} {amount}, {middle:.4g} is usual in its group"
            yield column.members[place], text


def _worse_places(column: _Column, middle: float) -> Iterator[int]:
    """Yield where a number is worse than the middle one; where both extremes are good, nowhere."""
    least, most = min(column.values), max(column.values)
    suspect = set()
    for kind in set(column.kinds):
        if worse(kind, least, middle) or worse(kind, most, middle):
            suspect.add(kind)
    if not suspect:
        return
    for place, value in enumerate(column.values):
        if worse(column.kinds[place], value, middle):
            yield place


def _columns(members: Iterable[Seen]) -> dict[tuple[str, str, str], _Column]:
    """Return the numbers of all nodes by check, name and unit."""
    alike: dict[Facts, list[Seen]] = defaultdict(list)
    for member in members:
        alike[member.facts].append(member)
    columns: dict[tuple[str, str, str], _Column] = defaultdict(_Column)
    for facts, group in alike.items():
        rows = zip(*(member.values for member in group), strict=True)
        for (check, name, unit, limit), values in zip(facts, rows, strict=True):
            column = columns[check, name, unit]
            column.kinds += [Kind(name, unit, limit)] * len(group)
            column.members += group
            column.values += values
    return columns
