"""Show every target at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from provision.commands.status import ProjectStatus
    from provision.ui.console import Console


def show_overview(result: ProjectStatus, console: Console) -> None:
    """Print a table, a row per target."""
    table = Table(box=None, pad_edge=False)
    for column in ("target", "platform", "lock", "built", "last checks"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it is")
    for row in result.rows:
        table.add_row(row.name, row.platform, row.lock, row.proof, row.smoke, row.summary)
    console.table(table)
