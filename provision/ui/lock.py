"""Show the results of ``lock`` and its options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from provision.core.text import plural

if TYPE_CHECKING:
    from provision.commands.edit_spec import Edited
    from provision.commands.lock import Confirmation, Freshness, LockResult
    from provision.lockfile.diff import ArtifactChange
    from provision.ui.console import Console


def show_lock(result: LockResult, console: Console) -> None:
    """Print one target's new lock and what changed in it."""
    if result.error:
        console.error(result.error)
        return
    state = "changed" if result.differs else "unchanged"
    console.line(f"{result.target}: {plural(result.packages, 'package')}, {state}", "green")
    _changes(result.changes, console)


def show_edited(result: Edited, console: Console) -> None:
    """Print one edited target's new lock, and its build or how to build it."""
    from provision.ui.build import show_build  # noqa: PLC0415 - `lock` shows none

    show_lock(result.lock, console)
    if result.build:
        show_build(result.build, console)
    else:
        console.line(f"not built; `{console.program} build {result.lock.target}`")


def show_confirmation(result: Confirmation, console: Console) -> None:
    """Print whether the second resolver accepts the lock, and the differences."""
    if result.differences:
        console.line(f"{result.target}: pip-tools would install something else", "bold red")
        _changes(result.differences, console)
    else:
        console.line(f"{result.target}: pip-tools accepts the lock", "green")


def show_freshness(result: Freshness, console: Console) -> None:
    """Print whether one lock is fresh."""
    if result.error:
        console.error(result.error)
        return
    style = "bold red" if result.stale else "green"
    console.line(f"{result.target}: {result.stale or 'fresh'}", style)
    if result.open and not result.stale:
        names = ", ".join(result.open)
        console.line(f"  open, no digest of their RECORD is known: {names}", "yellow")


def _changes(changes: Iterable[ArtifactChange], console: Console) -> None:
    for change in changes:
        versions = f"{change.before or ''} -> {change.after or ''}".strip()
        console.line(f"  {change.kind:<8}{change.name} {versions} (via {', '.join(change.via)})")
