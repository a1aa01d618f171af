"""The verdicts of many nodes: who differs from its group, what changed, who was not heard of."""

import datetime as dt
import gc
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, get_args

from provision.core.limits import read_bytes
from provision.report.layers import changed_layers
from provision.report.measures import is_rate, worse
from provision.report.model import Measurement
from provision.report.trend import outliers
from provision.report.verdict import Verdict
from provision.spec.tables import faults_of

State = Literal["remove", "silent", "stale", "deviates", "none", "keep"]  # worst first
_STATES = get_args(State)
_RUNTIMES = ("CUDA driver library", "compute-runtime", "Level Zero loader")
_AHEAD = dt.timedelta(minutes=10)  # by which clocks may differ
_FEWEST = 3  # nodes that can have something in common
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")  # in which alike faults differ


@dataclass(frozen=True, slots=True)
class Node:
    """The newest verdict of a node on one target by one suite, and what is noteworthy of it."""

    node: str
    """Name of the node."""
    state: State
    """`remove`, `none` and `keep` are its verdict; `silent`: no verdict was found; `stale`: it is
    too old; `deviates`: it keeps, and differs from its group.
    """
    target: str = ""
    """Name of the target; empty of a silent node, as all that follows."""
    suite: str = ""
    """Which checks."""
    code: str = ""
    """Of a finding, or `busy`, `time-limit`, `interrupted`, `usage`, `tool`."""
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
    """From the nodes of the same target, suite, device and lock."""
    changes: tuple[str, ...] = ()
    """Since its last verdict that was not `none`."""

    @property
    def what(self) -> str:
        """What is to be said of it; of a good one, to which group it belongs."""
        seen = f"last seen {self.time}" if self.state == "stale" else ""
        about = [seen, f"{self.code}: {self.reason}".strip(": "), *self.deviations]
        group = [self.device, self.driver, f"lock {self.lock[:8]}" if self.lock else ""]
        where = f"{self.target} {self.suite}".strip()
        return ", ".join(filter(None, [where, *(about if any(about) else group)]))


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes, worst first; ``lines`` and ``changed`` are them with alike nodes in one line."""

    counts: dict[State, int]
    """How many nodes are in each state."""
    lines: list[tuple[str, str, str]]
    """State, names and text; nodes whose texts differ in numbers alone share a line."""
    changed: list[tuple[str, str, str]]
    """State, names and changes since the last verdict, in the same way."""
    nodes: list[Node]
    """Each node, target and suite; worst first."""
    files: list[tuple[str, str]]
    """Path and fault of each file that was left out."""

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at a node; at one that is busy, nobody has."""
        return bool(self.counts.keys() - {"keep", "none"})


def report_fleet(folder: Path, hosts: Iterable[str], oldest: dt.datetime) -> Fleet:
    """Return the state of all expected nodes, and of all with a verdict in a folder."""
    # Verdicts from before ``oldest`` are stale; so are those of a clock that is ahead.
    latest, files = dt.datetime.now(dt.UTC) + _AHEAD, list[tuple[str, str]]()

    def rank(verdict: Verdict) -> tuple[bool, dt.datetime]:
        return _when(verdict) <= latest, _when(
            verdict
        )  # no wrong clock rules for years

    rounds: dict[tuple[str, str, str], dict[str, Verdict]] = defaultdict(dict)
    newest: dict[tuple[str, str, str], Verdict] = {}
    for path, new in _read(folder, files):
        key, bare = (
            (new.node, new.target, new.suite),
            new.model_copy(update={"numbers": {}}),
        )
        if rounds[key].setdefault(new.time, bare) != bare:
            files.append((path, f"another verdict of {new.node} at {new.time}"))
            continue
        newest[key] = max(
            newest.get(key, new), new, key=rank
        )  # it alone keeps its numbers
        gc.freeze()  # or the collector would visit all of them, again and again
    groups, deviations = defaultdict(list), defaultdict[int, list[str]](list)
    found = []
    for which, now in newest.items():
        past = [
            v
            for v in rounds[which].values()
            if v.time != now.time and v.verdict != "none"
        ]
        fresh = oldest <= _when(now) <= latest
        found.append((now, max(past, key=rank, default=None), fresh))
        if fresh and now.verdict != "none":
            groups[now.target, now.suite, now.device, now.lock].append(now)
    for members in groups.values():
        for verdict, text in (*_layers(members), *_numbers(members)):
            deviations[id(verdict)].append(text)
    nodes = [_node(now, last, fresh, deviations[id(now)]) for now, last, fresh in found]
    silent = sorted(set(hosts) - {node.node for node in nodes})
    nodes += [
        Node(name, "silent", reason="no verdict of it was found") for name in silent
    ]
    nodes.sort(key=lambda node: (_STATES.index(node.state), node.code, node.node))
    lines = _folded((node, node.what) for node in nodes)
    changed = _folded((node, "; ".join(node.changes)) for node in nodes if node.changes)
    return Fleet(
        dict(Counter(node.state for node in nodes)), lines, changed, nodes, files
    )


def _read(folder: Path, files: list[tuple[str, str]]) -> Iterator[tuple[str, Verdict]]:
    for path in sorted(folder.rglob("[!.]*.json")):
        name = path.relative_to(folder).as_posix()
        try:
            yield name, Verdict.model_validate_json(read_bytes(path))
        except (OSError, ValueError) as error:
            files.append((name, faults_of(error, Verdict)[0]))


def _when(verdict: Verdict) -> dt.datetime:
    return dt.datetime.fromisoformat(verdict.time).astimezone(dt.UTC)


def _node(
    now: Verdict,
    last: Verdict | None,
    fresh: bool,  # noqa: FBT001
    deviations: list[str],
) -> Node:
    told = (
        last if last and now.verdict == "none" else now
    )  # `none` has no facts of its own
    state: State = "deviates" if now.verdict == "keep" and deviations else now.verdict
    changes: list[str] = []
    if last and told is now:
        ends = [f"{each.verdict} {each.code}".strip() for each in (last, now)]
        changes += [" -> ".join(ends)] if ends[0] != ends[1] else []
        changes += map(str, changed_layers(last, now.stack, now.lock))
    drivers = [f"{k[7:]} {v}" for k, v in told.stack.items() if k.startswith("driver ")]
    runtimes = [told.stack[name] for name in _RUNTIMES if name in told.stack]
    return Node(
        now.node,
        state if fresh or state == "remove" else "stale",
        now.target,
        now.suite,
        now.code,
        now.reason,
        now.time,
        told.device or "",
        told.lock or "",
        ", ".join(drivers),
        ", ".join(runtimes),
        tuple(deviations),
        tuple(changes),
    )


def _layers(members: Sequence[Verdict]) -> Iterator[tuple[Verdict, str]]:
    """Yield who has another version of a layer than more than half of a group has."""
    stacks = []
    for verdict in members:  # addresses of GPUs differ from machine to machine
        gpus = {
            name: text
            for name, text in verdict.stack.items()
            if name.startswith("GPU ")
        }
        named = {"GPUs": ", ".join(sorted(gpus.values())) or "none"}
        stacks.append({k: v for k, v in verdict.stack.items() if k not in gpus} | named)
    for layer in dict.fromkeys(name for stack in stacks for name in stack):
        versions = [stack.get(layer, "absent") for stack in stacks]
        ((usual, count),) = Counter(versions).most_common(1)
        if len(members) >= _FEWEST and 2 * count > len(members):
            for verdict, own in zip(members, versions, strict=True):
                if own != usual:
                    yield (
                        verdict,
                        f"{layer} {own}, {usual} on {count} of {len(members)}",
                    )


def _numbers(members: Sequence[Verdict]) -> Iterator[tuple[Verdict, str]]:
    """Yield who measured worse than its group, beyond the noise from node to node."""
    groups: dict[tuple[str, str, str], list[tuple[Verdict, Measurement]]] = {}
    for verdict in members:
        for check, numbers in verdict.numbers.items():
            for name, number in numbers.items():
                key = (check, name, number.unit)
                groups.setdefault(key, []).append((verdict, number))
    for (check, name, unit), group in groups.items():
        if len(group) < _FEWEST:
            continue
        middle = median(number.value for _, number in group)
        for place in _worse_than_its_group(name, [number for _, number in group]):
            verdict, number = group[place]
            amount = f"{number.value:.4g} {unit.removeprefix('1')}".strip()
            usual = f"{middle:.4g} is usual in its group"
            yield verdict, f"{check}: {name} {amount}, {usual}"


def _worse_than_its_group(name: str, numbers: Sequence[Measurement]) -> list[int]:
    """Return the places of the numbers that are worse than those of like devices."""
    values = [number.value for number in numbers]
    if is_rate(numbers[0]):
        return outliers(values)
    usual = numbers[0].model_copy(update={"value": median(values)})
    return [at for at, number in enumerate(numbers) if worse(name, number, usual)]


def _folded(said: Iterable[tuple[Node, str]]) -> list[tuple[str, str, str]]:
    """Return state, names and text of nodes, those that differ in numbers alone in one line."""
    alike = defaultdict(list)
    for node, text in said:
        alike[node.state, _NUMBER.sub("", text)].append((node.node, text))
    more = {
        key: f" and {len(some) - 1} more" if some[1:] else ""
        for key, some in alike.items()
    }
    return [(key[0], some[0][0] + more[key], some[0][1]) for key, some in alike.items()]
