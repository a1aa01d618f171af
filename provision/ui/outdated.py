"""The view of what is newer than the locks: a row for each package, with its targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from provision.core.text import plural
from provision.ui.console import Console

if TYPE_CHECKING:  # a verb loads what makes its own result
    from provision.commands.outdated import Newer, Outdated, Vulnerability

Key = TypeVar("Key")
_COLUMNS = ("package", "locked", "newest", "uploaded", "required as", "targets")


def show_outdated(results: list[Outdated], console: Console) -> None:
    """Print what has a newer version, and what is known of the locked ones; each of it once."""
    compared = []
    for result in results:
        if result.error:
            console.error(result.error)
        else:
            compared.append(result)
    _show_newer(compared, console)
    _show_vulnerabilities(compared, console)


def _show_newer(results: list[Outdated], console: Console) -> None:
    newer = _targets_of(
        (_newer_row(each), result.target)
        for result in results
        for each in result.newer or ()
    )
    rows = [(*row, ", ".join(targets)) for row, targets in sorted(newer.items())]
    if rows:
        console.table(_COLUMNS, rows, spare=("uploaded", "required as"))
    current = [result.target for result in results if result.newer == ()]
    if current:
        console.line(f"nothing is newer for {', '.join(current)}", "green")


def _newer_row(newer: Newer) -> tuple[str, ...]:
    # A catalog does not say when a file was uploaded.
    day = newer.uploaded if newer.index == "default" else ""
    return newer.name, newer.locked, newer.newest, day, newer.requirement


def _show_vulnerabilities(results: list[Outdated], console: Console) -> None:
    reasons = _targets_of((result.not_looked_up, result.target) for result in results)
    clean = reasons.pop("", [])
    for reason, targets in reasons.items():
        line = (
            f"known vulnerabilities of {plural(len(targets), 'target')}: not looked up"
        )
        console.line(f"{line} ({reason})", "yellow")
    known = _targets_of(
        (bad, result.target) for result in results for bad in result.vulnerabilities
    )
    for bad, targets in known.items():
        console.line(f"{_vulnerability(bad)} ({', '.join(targets)})")
        clean = [target for target in clean if target not in targets]
    if clean:
        console.line(f"no known vulnerability: {', '.join(clean)}", "green")


def _vulnerability(bad: Vulnerability) -> str:
    line = f"{bad.state} {bad.id}: {bad.package} {bad.version}"
    if bad.fixed:
        line += f", fixed in {', '.join(bad.fixed)}"
    return f"{line}: {bad.reason}" if bad.reason else line


def _targets_of(pairs: Iterable[tuple[Key, str]]) -> dict[Key, list[str]]:
    """Return for each thing the targets that have it."""
    targets: dict[Key, list[str]] = {}
    for key, target in pairs:
        targets.setdefault(key, []).append(target)
    return targets
