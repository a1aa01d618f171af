"""Show every target at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.commands.status import ProjectStatus
    from provision.ui.console import Console


def show_overview(result: ProjectStatus, console: Console) -> None:
    """Print a table, a row per target."""
    columns = ("target", "platform", "lock", "built", "last checks", "what it is")
    rows = ((r.name, r.platform, r.lock, r.proof, r.smoke, r.summary) for r in result.rows)
    console.table(columns, rows)
