"""Show the results of ``rollback`` and ``clean``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.text import size

if TYPE_CHECKING:
    from provision.commands.generations import Cleaned, RolledBack
    from provision.ui.console import Console


def show_rollback(result: RolledBack, console: Console) -> None:
    """Print the generation that is current now."""
    record = result.now.record
    console.line(f"{result.target}: {result.before} -> {result.now.folder.name}", "green")
    console.line(f"in use now: built {record.built}, Python {record.python}, {record.proof}")


def show_cleaned(result: Cleaned, console: Console) -> None:
    """Print what was removed and what stays."""
    for name, taken in result.removed:
        console.line(f"{result.target}: removed {name}, {size(taken)}")
    users = dict(result.in_use)
    for name, taken in result.kept:
        console.line(f"{result.target}: kept {name}, {size(taken)}", "dim")
        if name in users:
            console.note(f"{name} is in use by {users[name]}; clean again when that has ended")
