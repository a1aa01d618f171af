"""The verdicts of many nodes: who differs from its group, what changed, who was not heard of."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from provision.core.limits import read_bytes
from provision.report.measures import CPU_SHARE, kind_of, scored
from provision.report.regressions import changed_layers, ratio
from provision.report.trend import outliers
from provision.report.verdict import Verdict
from provision.spec.tables import faults_of

_STATES = ("remove", "silent", "stale", "deviates", "none", "keep")  # worst first
_RUNTIMES = ("CUDA driver library", "compute-runtime", "Level Zero loader")
_AHEAD = dt.timedelta(minutes=10)  # by which clocks may differ
_FEWEST = 3  # nodes that can have something in common
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")  # in which alike faults differ


class Node(NamedTuple):
    """The newest verdict of a node on one target by one suite, and what is noteworthy of it."""

    node: str
    state: str
    target: str = ""
    suite: str = ""
    code: str = ""
    reason: str = ""
    device: str = ""
    driver: str = ""
    runtime: str = ""
    lock: str = ""
    time: str = ""
    deviations: tuple[str, ...] = ()  # from the nodes of the same target, suite, device and lock
    changes: tuple[str, ...] = ()  # since its last verdict that was not ``none``

    @property
    def what(self) -> str:
        """What is to be said of it; of a good one, to which group it belongs."""
        seen = f"last seen {self.time}" if self.state == "stale" else ""
        about = [seen, f"{self.code}: {self.reason}".strip(": "), *self.deviations]
        group = [self.device, self.driver, f"lock {self.lock[:8]}" if self.lock else ""]
        where = f"{self.target} {self.suite}".strip()
        return ", ".join(filter(None, [where, *(about if any(about) else group)]))


class Fleet(NamedTuple):
    """All nodes, worst first; ``lines`` and ``changed`` are them with alike nodes in one line."""

    counts: dict[str, int]  # by state
    lines: list[tuple[str, str, str]]  # state, names, what
    changed: list[tuple[str, str, str]]
    nodes: list[Node]
    files: list[tuple[str, str]]  # left out: path and fault

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at a node; at one that is busy, nobody has."""
        return bool(self.counts.keys() - {"keep", "none"})


def report_fleet(folder: Path, hosts: Iterable[str], oldest: dt.datetime) -> Fleet:
    """Return the state of all nodes with a verdict in a folder, and of all that are expected.

    Verdicts from before ``oldest`` are stale; so are those of a clock that is ahead.
    """
    latest, files = dt.datetime.now(dt.UTC) + _AHEAD, list[tuple[str, str]]()
    rounds: dict[tuple[str, str, str], list[Verdict]] = defaultdict(list)
    for path, new in _read(folder, files):
        same = rounds[new.node, new.target, new.suite]
        if twin := next((old for old in same if old.time == new.time), None):
            files += [(path, f"another verdict of {new.node} at {new.time}")] if twin != new else []
            continue
        same.append(new)
        same.sort(key=lambda each: (_when(each) <= latest, _when(each)), reverse=True)
        # Of the earlier ones, the last that says something is enough.
        del same[1 + next((i for i, old in enumerate(same[1:], 1) if old.verdict != "none"), 1) :]
    groups = defaultdict(list)
    for new, *_ in rounds.values():
        if new.verdict != "none" and oldest <= _when(new) <= latest:
            groups[new.target, new.suite, new.device, new.lock].append(new)
    deviations: dict[int, list[str]] = defaultdict(list)
    for members in groups.values():
        for verdict, text in (*_layers(members), *_numbers(members)):
            deviations[id(verdict)].append(text)
    nodes = [_node(found, deviations[id(found[0])], (oldest, latest)) for found in rounds.values()]
    silent = sorted(set(hosts) - {node.node for node in nodes})
    nodes += [Node(name, "silent", reason="no verdict of it was found") for name in silent]
    nodes.sort(key=lambda node: (_STATES.index(node.state), node.code, node.node))
    lines = _folded((node, node.what) for node in nodes)
    changed = _folded((node, "; ".join(node.changes)) for node in nodes if node.changes)
    return Fleet(dict(Counter(node.state for node in nodes)), lines, changed, nodes, files)


def _read(folder: Path, files: list[tuple[str, str]]) -> Iterator[tuple[str, Verdict]]:
    for path in sorted(folder.rglob("[!.]*.json")):
        name = path.relative_to(folder).as_posix()
        try:
            yield name, Verdict.model_validate_json(read_bytes(path))
        except ValidationError as error:
            files.append((name, faults_of(error, Verdict)[0]))
        except (OSError, ValueError) as error:
            files.append((name, str(error)))


def _when(verdict: Verdict) -> dt.datetime:
    return dt.datetime.fromisoformat(verdict.time).astimezone(dt.UTC)


def _node(rounds: list[Verdict], deviations: list[str], span: Sequence[dt.datetime]) -> Node:
    now, before = rounds[0], next((old for old in rounds[1:] if old.verdict != "none"), None)
    state: str = "deviates" if now.verdict == "keep" and deviations else now.verdict
    state = state if state == "remove" or span[0] <= _when(now) <= span[1] else "stale"
    changes: list[str] = []
    if before and now.verdict != "none":
        ends = [f"{each.verdict} {each.code}".strip() for each in (before, now)]
        changes += [" -> ".join(ends)] if ends[0] != ends[1] else []
        changes += map(str, changed_layers(before, now.stack, now.lock))
    known = before if before and now.verdict == "none" else now  # of `none` there are no facts
    drivers = [f"{k[7:]} {v}" for k, v in known.stack.items() if k.startswith("driver ")]
    runtimes = [known.stack[name] for name in _RUNTIMES if name in known.stack]
    return Node(
        now.node, state, now.target, now.suite, now.code, now.reason, known.device or "",
        ", ".join(drivers), ", ".join(runtimes), known.lock or "", now.time,
        tuple(deviations), tuple(changes),
    )  # fmt: skip


def _layers(members: Sequence[Verdict]) -> Iterator[tuple[Verdict, str]]:
    """Yield who has another version of a layer than more than half of a group has."""
    stacks = []
    for verdict in members:  # addresses differ from machine to machine
        gpus = sorted(text for name, text in verdict.stack.items() if name.startswith("GPU "))
        rest = {name: text for name, text in verdict.stack.items() if not name.startswith("GPU ")}
        stacks.append(rest | {"GPUs": ", ".join(gpus) or "none"})
    for layer in dict.fromkeys(name for stack in stacks for name in stack):
        versions = [stack.get(layer, "absent") for stack in stacks]
        ((usual, count),) = Counter(versions).most_common(1)
        if len(members) >= _FEWEST and 2 * count > len(members):
            for verdict, own in zip(members, versions, strict=True):
                if own != usual:
                    yield verdict, f"{layer} {own}, {usual} on {count} of {len(members)}"


def _numbers(members: Sequence[Verdict]) -> Iterator[tuple[Verdict, str]]:
    """Yield who measured worse than its group, beyond the noise from node to node."""
    courses = defaultdict(list)
    for verdict in members:
        shares = (each[CPU_SHARE].value for each in verdict.numbers.values() if CPU_SHARE in each)
        share = next(shares, None)
        for check, numbers in verdict.numbers.items():
            for name, number in numbers.items():
                courses[check, name, number.unit].append((verdict, number, share))
    for (check, name, unit), some in courses.items():
        limit, kind = some[0][1].limit, kind_of(name, some[0][1])
        if kind is None or len(some) < _FEWEST:
            continue
        points = [scored(n, kind, limit, None, share if kind.timed else None)
                  for _, n, share in some]  # fmt: skip
        for place, fall in outliers(points, math.log(kind.tolerance)):
            verdict, number, _ = some[place]
            if abs(number.value - math.exp(kind.better * fall.level)) > kind.least:
                amount = f"{number.value:.4g} {unit.removeprefix('1')}".strip()
                usual = ratio(fall.depth, kind)
                yield verdict, f"{check}: {name} {amount}, {usual} of its group"


def _folded(said: Iterable[tuple[Node, str]]) -> list[tuple[str, str, str]]:
    """Return state, names and text of nodes, those that differ in numbers alone in one line."""
    alike: dict[tuple[str, str], list[tuple[Node, str]]] = defaultdict(list)
    for node, text in said:
        alike[node.state, _NUMBER.sub("", text)].append((node, text))
    return [
        (state, some[0][0].node + (f" and {len(some) - 1} more" if some[1:] else ""), some[0][1])
        for (state, _), some in alike.items()
    ]
