"""The verdicts of many nodes: who is bad, who differs from its group, who was not heard of."""

import datetime as dt
import errno
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, get_args

from pydantic import ValidationError

from provision.core.filesystem import is_link
from provision.core.limits import read_bytes
from provision.report.limits import FEWEST_NODES
from provision.report.measures import is_rate, worse
from provision.report.model import Measurement
from provision.report.trend import outliers
from provision.report.verdict import Verdict, short, verdict_of

State = Literal["remove", "silent", "stale", "deviates", "none", "keep"]  # worst first
_STATES = get_args(State)
_RUNTIMES = ("CUDA driver library", "compute-runtime", "Level Zero loader")
_AHEAD = dt.timedelta(minutes=10)  # by which clocks may differ
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")  # in which alike texts differ
_Key = tuple[str, str, str]  # node, target, suite
_Deviation = tuple[Verdict, str]


@dataclass(frozen=True, slots=True)
class Node:
    """The newest verdict of a node on one target by one suite, and what is noteworthy of it."""

    node: str
    """Name of the node."""
    state: State
    """`remove`, `none` and `keep` are its verdict; `silent`: no verdict was found; `stale`: it is
    too old, or nothing was learnt for so long; `deviates`: it keeps, and differs from its group.
    """
    target: str = ""
    """Name of the target; empty of a silent node, as all that follows."""
    suite: str = ""
    """Which checks."""
    code: str = ""
    """Code of a finding, or `busy`, `time-limit`, `interrupted`, `usage`, `tool`."""
    reason: str = ""
    """Why the verdict is not `keep`."""
    time: str = ""
    """When the verdict was reached, ISO 8601, UTC."""
    device: str = ""
    """Name of the first device."""
    lock: str = ""
    """Digest of the lock."""
    driver: str = ""
    """Kernel drivers and their versions."""
    runtime: str = ""
    """Version of the GPU runtime of the system."""
    deviations: tuple[str, ...] = ()
    """How it differs from the nodes of the same target, suite, device and lock."""

    @property
    def what(self) -> str:
        """What is to be said of it; of a good one, to which group it belongs."""
        texts = [f"{self.target} {self.suite}".strip()]
        if self.state == "stale":
            texts.append(f"last seen {self.time}")
        texts += [f"{self.code}: {self.reason}".strip(": "), *self.deviations]
        if not any(texts[1:]):
            texts += [self.device, self.driver, f"lock {self.lock[:8]}"]
        return ", ".join(filter(None, texts))


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes, worst first; ``lines`` are them with alike nodes in one line."""

    counts: dict[State, int]
    """How many nodes are in each state."""
    lines: list[tuple[str, str, str]]
    """State, names and text; nodes whose texts differ in numbers alone share a line."""
    nodes: list[Node]
    """Each node, target and suite; worst first."""
    files: list[tuple[str, str]]
    """Path and error of each file that was left out."""

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at a node or a file; at one that is busy, nobody has."""
        return bool(self.counts.keys() - {"keep", "none"} or self.files)


def report_fleet(folder: Path, hosts: Iterable[str], oldest: dt.datetime) -> Fleet:
    """Report all expected nodes, and all with a verdict in a folder.

    Verdicts from before ``oldest`` are stale; so are those of a clock that is ahead.
    """
    files: list[tuple[str, str]] = []
    expected = frozenset(hosts)
    newest = _newest(_read(folder, expected, files), files)
    fresh = {key: new for key, new in newest.items() if _is_fresh(new, oldest)}
    deviations = _deviations(fresh.values())
    nodes: list[Node] = []
    for key, verdict in newest.items():
        nodes.append(_node(verdict, deviations[key], fresh=key in fresh))
    for name in expected - {node.node for node in nodes}:
        nodes.append(Node(name, "silent", reason="no verdict of it was found"))
    nodes.sort(key=lambda node: (_STATES.index(node.state), node.code, node.node))
    counts = Counter(node.state for node in nodes)
    return Fleet(dict(counts), _folded(nodes), nodes, files)


def _deviations(verdicts: Iterable[Verdict]) -> dict[_Key, list[str]]:
    """How nodes differ from those of the same target, suite, device and lock."""
    groups: dict[tuple[str | None, ...], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.verdict != "none":  # which has no facts
            alike = verdict.target, verdict.suite, verdict.device, verdict.lock
            groups[alike].append(verdict)
    deviations: dict[_Key, list[str]] = defaultdict(list)
    for members in groups.values():
        if len(members) >= FEWEST_NODES:
            for verdict, text in (*_layers(members), *_numbers(members)):
                deviations[_key(verdict)].append(text)
    return deviations


def _newest(
    verdicts: Iterable[tuple[str, Verdict]], files: list[tuple[str, str]]
) -> dict[_Key, Verdict]:
    """The newest verdict of each node on each target by each suite.

    ``none``, which learnt nothing, replaces no ``remove``: a node that is busy is not fit again.
    """
    newest: dict[_Key, Verdict] = {}
    decided: dict[_Key, Verdict] = {}
    for path, verdict in verdicts:
        key = _key(verdict)
        other = newest.setdefault(key, verdict)
        if _when(other) == _when(verdict) and other != verdict:
            fault = f"another verdict of {verdict.node} at {verdict.time}"
            files.append((path, fault))
        newest[key] = max(other, verdict, key=_rank)
        if verdict.verdict != "none":
            decided[key] = max(decided.get(key, verdict), verdict, key=_rank)
    for key, verdict in decided.items():
        if verdict.verdict == "remove" and newest[key].verdict == "none":
            newest[key] = verdict
    return newest


def _read(
    folder: Path, hosts: Collection[str], files: list[tuple[str, str]]
) -> Iterator[tuple[str, Verdict]]:
    """Yield the verdicts in a folder with their paths; what is none is added to ``files``."""
    for path in sorted(folder.rglob("[!.]*.json")):
        place = path.relative_to(folder)
        name = short(place.as_posix())
        try:
            verdict = verdict_of(_content(path))
        except (OSError, ValueError) as error:
            files.append((name, _fault(error)))
            continue
        if fault := _speaks_for_another(verdict, place, hosts):
            files.append((name, fault))
        else:
            yield name, verdict


def _content(path: Path) -> bytes:
    if is_link(path):  # who made it may not be able to read what this user can
        raise OSError(errno.ELOOP, "it is a link, which is not followed")
    return read_bytes(path, follow=False)  # nor one that was made meanwhile


def _fault(error: Exception) -> str:
    """Why a file is no verdict, without a word of its content: it may be anything."""
    if isinstance(error, OSError):
        return error.strerror or "it cannot be read"
    if isinstance(error, ValidationError):
        (place, *_) = error.errors()[0]["loc"] or [""]
        if place:
            return (
                f"it is no verdict: `{place}` is missing, or is not as its schema says"
            )
    return "it is no verdict: it is no JSON, or was cut short"


def _speaks_for_another(verdict: Verdict, place: Path, hosts: Collection[str]) -> str:
    """Why a verdict is not that of its file; "" if it is.

    Who collects verdicts knows which node a file is of, by its name or by its folder.
    """
    if place.name != verdict.file_name:
        return f"it says that it is {verdict.file_name}, which its name does not"
    others = {*hosts}.intersection(place.parts[:-1]) - {verdict.node}
    return f"it is in the folder of {others.pop()}" if others else ""


def _key(verdict: Verdict) -> _Key:
    return verdict.node, verdict.target, verdict.suite


def _when(verdict: Verdict) -> dt.datetime:
    return _utc(verdict.time)


def _utc(moment: str) -> dt.datetime:
    return dt.datetime.fromisoformat(moment).astimezone(dt.UTC)


def _rank(verdict: Verdict) -> tuple[bool, dt.datetime, int]:
    """Order by time, of one moment the worse last.

    One of the future hides no other, or a wrong clock would rule for years.
    """
    when, severity = _when(verdict), -_STATES.index(verdict.verdict)
    return when <= dt.datetime.now(dt.UTC) + _AHEAD, when, severity


def _is_fresh(verdict: Verdict, oldest: dt.datetime) -> bool:
    past, when, _ = _rank(verdict)
    if verdict.since:  # as old as the last one that said something
        when = min(when, _utc(verdict.since))
    return past and when >= oldest


def _node(verdict: Verdict, deviations: list[str], *, fresh: bool) -> Node:
    state: State = verdict.verdict
    if state == "keep" and deviations:
        state = "deviates"
    if state != "remove" and not fresh:
        state = "stale"
    reason = verdict.reason
    if verdict.since and not fresh:
        reason = f"no verdict since {verdict.since}: {reason}"
    drivers: list[str] = []
    for layer, version in verdict.stack.items():
        if layer.startswith("driver "):
            drivers.append(f"{layer.removeprefix('driver ')} {version}")
    runtimes = [verdict.stack[layer] for layer in _RUNTIMES if layer in verdict.stack]
    return Node(
        verdict.node,
        state,
        verdict.target,
        verdict.suite,
        verdict.code,
        reason,
        verdict.time,
        device=verdict.device or "",
        lock=verdict.lock or "",
        driver=", ".join(drivers),
        runtime=", ".join(runtimes),
        deviations=tuple(deviations),
    )


def _layers(members: Sequence[Verdict]) -> Iterator[_Deviation]:
    """Yield who has another version of a layer than more than half of a group has."""
    stacks = [_without_addresses(verdict.stack) for verdict in members]
    for layer in dict.fromkeys(name for stack in stacks for name in stack):
        versions = [stack.get(layer, "absent") for stack in stacks]
        ((usual, count),) = Counter(versions).most_common(1)
        if 2 * count <= len(members):
            continue
        for verdict, version in zip(members, versions, strict=True):
            if version != usual:
                text = f"{layer} {version}, {usual} on {count} of {len(members)}"
                yield verdict, text


def _without_addresses(stack: dict[str, str]) -> dict[str, str]:
    """Layers with all GPUs as one, whose addresses differ from machine to machine."""
    layers: dict[str, str] = {}
    gpus: list[str] = []
    for layer, version in stack.items():
        if layer.startswith("GPU "):
            gpus.append(version)
        else:
            layers[layer] = version
    return layers | {"GPUs": ", ".join(sorted(gpus)) or "none"}


def _numbers(members: Sequence[Verdict]) -> Iterator[_Deviation]:
    """Yield who measured worse than its group, beyond the noise from node to node."""
    groups = _measured(members)
    for (check, name, unit), group in groups.items():
        if len(group) < FEWEST_NODES:
            continue
        values = [number.value for _, number in group]
        middle = median(values)
        usual = group[0][1].model_copy(update={"value": middle})
        slow = outliers(values) if is_rate(usual) else []
        for place, (verdict, number) in enumerate(group):
            if place in slow or worse(name, number, usual):
                amount = f"{number.value:.4g} {unit.removeprefix('1')}".strip()
                text = f"{check}: {name} {amount}, {middle:.4g} is usual in its group"
                yield verdict, text


def _measured(
    members: Iterable[Verdict],
) -> dict[_Key, list[tuple[Verdict, Measurement]]]:
    """What can be compared, by check, name and unit: NaN of one would be the median of all."""
    groups: dict[_Key, list[tuple[Verdict, Measurement]]] = defaultdict(list)
    for verdict in members:
        for check, numbers in verdict.numbers.items():
            for name, number in numbers.items():
                if number.comparable:
                    groups[check, name, number.unit].append((verdict, number))
    return groups


def _folded(nodes: Iterable[Node]) -> list[tuple[str, str, str]]:
    """State, names and text of nodes, those that differ in numbers alone in one line."""
    groups: dict[tuple[str, str], list[Node]] = defaultdict(list)
    for node in nodes:
        groups[node.state, _NUMBER.sub("", node.what)].append(node)
    lines: list[tuple[str, str, str]] = []
    for alike in groups.values():
        names = alike[0].node
        if len(alike) > 1:
            names += f" and {len(alike) - 1} more"
        lines.append((alike[0].state, names, alike[0].what))
    return lines
