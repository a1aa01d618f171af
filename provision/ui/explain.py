"""The view of ``explain``: a block for each group of targets in which a package is alike."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from provision.core.text import size
from provision.ui.console import Console

if TYPE_CHECKING:  # a verb loads what makes its own result
    from collections.abc import Iterable, Iterator, Sequence

    from provision.commands.explanation import Chain, Explanation, Limit

_HANG = 15  # columns of the names on the left
_FEW = 4  # blocks, and ways to a package, that are shown without -v
_LAYERS = {"conda": "conda layer", "own": "own package", "pip": "pip layer"}
_COLUMNS = ("version", "index", "required by", "targets")


def show_explanations(results: Sequence[Explanation], console: Console) -> None:
    """Print why a package is in each lock, or why not; of many locks only an overview."""
    explained = []
    for result in results:
        if result.error:
            console.error(result.error)
        else:
            explained.append(result)
    if len(explained) > _FEW and not console.detailed:
        _show_overview(explained, console)
        return
    for number, result in enumerate(explained):
        if number:
            console.line()
        _show(result, console)


def _show_overview(results: Sequence[Explanation], console: Console) -> None:
    targets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    absent = []
    for result in results:
        if result.layer == "none":
            absent.append(result)
        else:
            targets[_row(result)] += result.targets
    rows = [(*row, ", ".join(names)) for row, names in targets.items()]
    if rows:
        console.table(_COLUMNS, rows, spare=("required by", "index"))
    for result in absent:
        _show(result, console)
    first = results[0]
    command = f"{console.program} explain {first.package} -t {first.targets[0]}"
    console.line(f"`{command}` says the rest of one target, -v of all", "dim")


def _row(result: Explanation) -> tuple[str, ...]:
    required = ", ".join(result.required_by)
    direct = [chain.line for chain in result.why if not chain.packages]
    if direct:
        required = direct[0]
    return result.version, result.index, required


def _show(result: Explanation, console: Console) -> None:
    names = ", ".join(result.targets)
    if result.layer == "none":
        console.line(f"{result.package} is not in the lock of {names}", "bold")
    else:
        name = f"{result.package} {result.version}".strip()
        console.line(f"{name} ({_LAYERS[result.layer]}): {names}", "bold")
    for note in result.notes:
        console.remark(note)
    _show_row("file", _files(result), console)
    _show_row("variant", _variant(result), console)
    _show_row("index", _index(result), console)
    ways = [*map(_way, result.why)]
    most = len(ways) if console.detailed else _FEW
    _show_row("required by", ways[:most], console)
    if ways[most:]:
        more = f"… and {len(ways) - most} more ways; -v shows them"
        console.line(f"{'':<{_HANG}}{more}", "dim", hang=_HANG)
    _show_row("limits", _limits(result.limits), console)
    _show_row("newer", _newer(result), console)
    _show_row("to change it", _changes(result), console)


def _show_row(head: str, lines: Iterable[str], console: Console) -> None:
    for line in lines:
        console.line(f"  {head:<{_HANG - 2}}{line}", hang=_HANG)
        head = ""


def _files(result: Explanation) -> Iterator[str]:
    for file in result.files:
        line = file.name
        if file.size:
            line += f", {size(file.size)}"
        if len(result.files) > 1:
            line += f" ({', '.join(file.targets)})"
        yield line
        yield f"sha256 {file.sha256}"


def _variant(result: Explanation) -> Iterator[str]:
    line = result.variant
    if result.variants:
        others = ", ".join(result.variants)
        line = f"{line or 'none'}; the catalog also has {others}"
    if line:
        yield line


def _index(result: Explanation) -> Iterator[str]:
    if result.source:
        yield f"none: built from {result.source}"
    elif result.assigned:
        yield f"{result.index} and no other, by [pip.index] of {result.assigned}"
    elif result.cutoff:
        line = f"{result.index}, uploads before {result.cutoff}"
        if result.cutoff_place:
            line += f" ({result.cutoff_place})"
        yield line
    elif result.index:
        yield result.index


def _way(chain: Chain) -> str:
    """Return a way as a line: the last package is that of the line, but for one of the project."""
    line, place = chain.line, chain.place
    if chain.packages:
        package = chain.packages[-1]
        if package != line and not _is_of(line, package):
            line = f"{package}: {line}"
    way = " <- ".join([*chain.packages[:-1], line])
    if chain.source == "inherited":
        place += ", inherited"
    return f"{way} ({place})"


def _is_of(line: str, package: str) -> bool:
    """Whether a requirement is one of a distribution."""
    name = re.match(r"[\w.-]+", line)
    return name is not None and canonicalize_name(name[0]) == package


def _limits(limits: Sequence[Limit]) -> Iterator[str]:
    unknown = []
    for limit in limits:
        name = limit.by
        if limit.kind in {"constraint", "override"}:
            name += f" ({limit.kind})"
        if limit.versions is None:
            unknown.append(limit.by)
        else:
            yield f"{name}: {limit.versions or 'any version'}"
    if unknown:
        yield f"{', '.join(unknown)}: not stored in the lock"


def _newer(result: Explanation) -> Iterator[str]:
    if result.cutoff:
        yield f"not known here: `provision outdated {result.targets[0]}` asks the index"
    if result.newer == ():
        yield "the catalog has nothing newer"
    for holders, releases in groupby(result.newer or (), attrgetter("held_by")):
        versions = ", ".join(release.version for release in releases)
        reasons = "; ".join(holders) or "nothing that is known here holds it back"
        yield f"{versions}: {reasons}"


def _changes(result: Explanation) -> Iterator[str]:
    if result.changes and result.targets[1:]:
        yield f"in {result.targets[0]}; in the others likewise:"
    for change in result.changes:
        action = change.do
        if action.startswith("provision "):
            action = f"`{action}`"
        yield f"{action}: {change.effect}"
