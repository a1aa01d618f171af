"""The verdicts of many nodes: who is bad, who differs from its group, who was not heard of."""

import datetime as dt
import errno
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from provision.core.filesystem import is_link
from provision.core.limits import read_bytes
from provision.host.model import is_known
from provision.report.model import utc
from provision.report.peers import Facts, Seen, deviations, seen
from provision.report.verdict import Verdict, short, verdict_of

State = Literal["remove", "silent", "stale", "deviates", "none", "keep"]  # worst first
_STATES = get_args(State)
_RUNTIMES = ("CUDA driver library", "compute-runtime", "Level Zero loader")
_AHEAD = dt.timedelta(minutes=10)  # by which clocks may differ
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")  # in which alike texts differ
_Key = tuple[str, str, str]  # node, target, suite
_Place = tuple[str, ...]  # parts of the path of a file, below the folder of verdicts


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
    remedy: str = ""
    """What to do about it."""
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
        texts.append(self.remedy)
        if not any(texts[1:]):
            texts += [self.device, self.driver, f"lock {self.lock[:8]}"]
        return ", ".join(filter(None, texts))


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes, worst first; ``lines`` are them with alike nodes in one line."""

    counts: dict[State, int]
    """How many nodes are in each state; one with several verdicts is in the worst of theirs."""
    lines: list[tuple[str, str, str]]
    """State, names and text; nodes whose texts differ in numbers alone share a line. Those that keep
    on one target, and not on another, have the lines of the others.
    """
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
    fresh = {key: new for key, new in newest.items() if _is_fresh(new.verdict, oldest)}
    differences: dict[_Key, list[str]] = defaultdict(list)
    for new, text in deviations(fresh.values()):
        differences[_key(new.verdict)].append(text)
    nodes = []
    for key, new in newest.items():
        nodes.append(_node(new.verdict, differences[key], fresh=key in fresh))
    for name in expected.difference(node.node for node in nodes):
        nodes.append(Node(name, "silent", reason="no verdict of it was found"))
    nodes.sort(key=lambda node: (_STATES.index(node.state), node.code, node.node))
    worst: dict[str, State] = {}
    for node in nodes:
        worst.setdefault(node.node, node.state)
    lines = []
    for node in nodes:
        if node.state != "keep" or worst[node.node] == "keep":
            lines.append(node)
    return Fleet(dict(Counter(worst.values())), _folded(lines), nodes, files)


def _newest(
    verdicts: Iterable[tuple[_Place, Seen]], files: list[tuple[str, str]]
) -> dict[_Key, Seen]:
    """The newest verdict of each node on each target by each suite.

    ``none``, which learnt nothing, replaces no ``remove``: a node that is busy is not fit again.
    """
    newest: dict[_Key, Seen] = {}
    decided: dict[_Key, Seen] = {}
    for place, new in verdicts:
        verdict = new.verdict
        key = _key(verdict)
        other = newest.get(key, new)
        if other != new and utc(other.verdict.time) == utc(verdict.time):
            fault = f"another verdict of {verdict.node} at {verdict.time}"
            files.append((_name(place), fault))
        newest[key] = _newer(other, new)
        if verdict.verdict != "none":
            decided[key] = _newer(decided.get(key, new), new)
    for key, new in decided.items():
        if new.verdict.verdict == "remove" and newest[key].verdict.verdict == "none":
            newest[key] = new
    return newest


def _read(
    folder: Path, hosts: frozenset[str], files: list[tuple[str, str]]
) -> Iterator[tuple[_Place, Seen]]:
    """Yield the verdicts in a folder with their places; what is none is added to ``files``."""
    shared: dict[Facts, Facts] = {}
    above = len(folder.parts)
    for path in sorted(folder.rglob("[!.]*.json")):
        place = path.parts[above:]
        try:
            verdict = verdict_of(_content(path))
        except (OSError, ValueError) as error:
            files.append((_name(place), _fault(error)))
            continue
        if fault := _speaks_for_another(verdict, place, hosts):
            files.append((_name(place), fault))
        else:
            yield place, seen(verdict, shared)


def _name(place: _Place) -> str:
    return short("/".join(place))


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


def _speaks_for_another(verdict: Verdict, place: _Place, hosts: frozenset[str]) -> str:
    """Why a verdict is not that of its file; "" if it is.

    Who collects verdicts knows which node a file is of, by its name or by its folder.
    """
    if place[-1] != verdict.file_name:
        return f"it says that it is {verdict.file_name}, which its name does not"
    others = hosts.intersection(place[:-1]) - {verdict.node}
    return f"it is in the folder of {next(iter(others))}" if others else ""


def _key(verdict: Verdict) -> _Key:
    return verdict.node, verdict.target, verdict.suite


def _newer(other: Seen, new: Seen) -> Seen:
    return new if other is new else max(other, new, key=_rank)


def _rank(new: Seen) -> tuple[bool, dt.datetime, int]:
    """Order by time, of one moment the worse last.

    One of the future hides no other, or a wrong clock would rule for years.
    """
    when = utc(new.verdict.time)
    return not _is_ahead(when), when, -_STATES.index(new.verdict.verdict)


def _is_ahead(when: dt.datetime) -> bool:
    return when > dt.datetime.now(dt.UTC) + _AHEAD


def _is_fresh(verdict: Verdict, oldest: dt.datetime) -> bool:
    when = utc(verdict.time)
    if _is_ahead(when):
        return False
    if verdict.since:  # as old as the last one that said something
        when = min(when, utc(verdict.since))
    return when >= oldest


def _node(verdict: Verdict, deviations: list[str], *, fresh: bool) -> Node:
    state: State = verdict.verdict
    if state == "keep" and deviations:
        state = "deviates"
    if state != "remove" and not fresh:
        state = "stale"
    reason = verdict.reason
    if verdict.since and not fresh:
        reason = f"no verdict since {verdict.since}: {reason}"
    drivers = []
    for layer, version in verdict.stack.items():
        if layer.startswith("driver "):
            drivers.append(f"{layer.removeprefix('driver ')} {version}")
    found = [verdict.stack.get(layer, "") for layer in _RUNTIMES]
    runtimes = filter(is_known, found)
    return Node(
        verdict.node,
        state,
        verdict.target,
        verdict.suite,
        verdict.code,
        reason,
        verdict.remedy,
        verdict.time,
        device=verdict.device or "",
        lock=verdict.lock or "",
        driver=", ".join(drivers),
        runtime=", ".join(runtimes),
        deviations=tuple(deviations),
    )


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
