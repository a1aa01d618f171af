"""Show the refresh of a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.catalog.snapshot_update import RefreshResult
    from provision.ui.console import Console


def show_refresh(result: RefreshResult, console: Console) -> None:
    """Print what was added, vanished, or was refused."""
    console.line(f"{result.name}: {len(result.added)} added, {len(result.completed)} completed")
    for name in (*result.added, *result.completed):
        console.line(f"  {name}")
    for name in result.vanished:
        console.note(f"{name} is not listed any more; the catalog keeps it")
    for changed in result.reuploads:
        console.line(
            f"refused: {changed.filename} differs from the file in the catalog", "bold red"
        )
        console.line(f"  known sha256 {changed.known}, offered {changed.offered}")
    for error in result.errors:
        console.error(error)
