"""The view of ``explain``: a block for each group of targets in which a package is alike."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from provision.core.text import size
from provision.ui.console import Console

if TYPE_CHECKING:  # a verb loads what makes its own result
    from collections.abc import Iterator, Sequence

    from provision.commands.explanation import Chain, Explanation, Limit

_HANG = 15  # columns of the names on the left
_FEW = 4  # blocks, and ways to a package, that are shown without -v
_LAYERS = {"conda": "conda layer", "own": "own package", "pip": "pip layer"}
_COLUMNS = ("version", "index", "required by", "targets")


def show_explanations(results: Sequence[Explanation], console: Console) -> None:
    """Print why a package is in each lock, or why not; of many locks only an overview."""
    for error in filter(None, (result.error for result in results)):
        console.error(error)
    found = [result for result in results if not result.error]
    if len(found) > _FEW and not console.detailed:
        _show_overview(found, console)
        return
    for number, result in enumerate(found):
        if number:
            console.line()
        _show(result, console)


def _show_overview(results: Sequence[Explanation], console: Console) -> None:
    present = [result for result in results if result.layer != "none"]
    targets: dict[tuple[str, ...], list[str]] = {}
    for result in present:
        targets.setdefault(_row(result), []).extend(result.targets)
    rows = [(*row, ", ".join(names)) for row, names in targets.items()]
    if rows:
        console.table(_COLUMNS, rows, spare=("required by", "index"))
    for result in results:
        if result not in present:
            _show(result, console)
    first = results[0]
    command = f"{console.program} explain {first.package} -t {first.targets[0]}"
    console.line(f"`{command}` says the rest of one target, -v of all", "dim")


def _row(result: Explanation) -> tuple[str, ...]:
    users = ", ".join(result.required_by)
    direct = [chain.line for chain in result.why if not chain.packages]
    required = direct[0] if direct else users
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
    rows = {
        "file": [*_files(result)],
        "variant": [*_variant(result)],
        "index": [*_index(result)],
        "required by": [*map(_chain, result.why)],
        "limits": [*_limits(result.limits)],
        "newer": [*_newer(result)],
        "to change it": [*_changes(result)],
    }
    for head, lines in rows.items():
        _show_row(head, lines, console)


def _show_row(head: str, lines: Sequence[str], console: Console) -> None:
    most = len(lines) if console.detailed or head != "required by" else _FEW
    for number, line in enumerate(lines[:most]):
        begin = "" if number else head
        console.line(f"  {begin:<{_HANG - 2}}{line}", hang=_HANG)
    if lines[most:]:
        more = f"… and {len(lines) - most} more ways; -v shows them"
        console.line(f"{'':<{_HANG}}{more}", "dim", hang=_HANG)


def _files(result: Explanation) -> Iterator[str]:
    for file in result.files:
        length = f", {size(file.size)}" if file.size else ""
        whose = f" ({', '.join(file.targets)})" if result.files[1:] else ""
        yield f"{file.name}{length}{whose}"
        yield f"sha256 {file.sha256}"


def _variant(result: Explanation) -> Iterator[str]:
    if result.variant or result.variants:
        others = f"; the catalog also has {', '.join(result.variants)}"
        yield f"{result.variant or 'none'}{others if result.variants else ''}"


def _index(result: Explanation) -> Iterator[str]:
    if result.source:
        yield f"none: built from {result.source}"
    elif result.assigned:
        yield f"{result.index} and no other, by [pip.index] of {result.assigned}"
    elif result.cutoff:
        where = f" ({result.cutoff_place})" if result.cutoff_place else ""
        yield f"{result.index}, uploads before {result.cutoff}{where}"
    elif result.index:
        yield result.index


def _chain(chain: Chain) -> str:
    """Return a way as a line: the last package is that of the line, but for one of the project."""
    inherited = ", inherited" if chain.source == "inherited" else ""
    *users, last = [*chain.packages, chain.line][: len(chain.packages) or 1]
    line = chain.line
    if last != line and not _is_of(line, last):
        line = f"{last}: {line}"
    way = " <- ".join([*users, line])
    return f"{way} ({chain.place}{inherited})"


def _is_of(line: str, package: str) -> bool:
    """Whether a requirement is one of a distribution."""
    found = re.match(r"[\w.-]+", line)
    return found is not None and canonicalize_name(found[0]) == package


def _limits(limits: Sequence[Limit]) -> Iterator[str]:
    for limit in limits:
        kind = f" ({limit.kind})" if limit.kind in {"constraint", "override"} else ""
        if limit.versions is not None:
            yield f"{limit.by}{kind}: {limit.versions or 'any version'}"
    if unknown := [limit.by for limit in limits if limit.versions is None]:
        yield f"{', '.join(unknown)}: not stored in the lock"


def _newer(result: Explanation) -> Iterator[str]:
    if result.cutoff:
        yield f"not known here: `provision outdated {result.targets[0]}` asks the index"
    if result.newer == ():
        yield "the catalog has nothing newer"
    for held, releases in groupby(result.newer or (), key=lambda each: each.held_by):
        versions = ", ".join(each.version for each in releases)
        reasons = "; ".join(held) or "nothing that is known here holds it back"
        yield f"{versions}: {reasons}"


def _changes(result: Explanation) -> Iterator[str]:
    if result.changes and result.targets[1:]:
        yield f"in {result.targets[0]}; in the others likewise:"
    for change in result.changes:
        do = change.do
        yield f"{f'`{do}`' if do.startswith('provision ') else do}: {change.effect}"
