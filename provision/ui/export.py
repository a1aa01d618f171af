"""Show an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.ui.console import print_text

if TYPE_CHECKING:
    from provision.commands.export import Export
    from provision.ui.console import Console


def show_export(result: Export, console: Console) -> None:
    """Print the text, or where it was written; and what the format does not hold."""
    if result.file:
        console.line(f"{result.target} as {result.format}: {result.file}", "bold green")
    else:
        print_text(result.text)
    if result.lost:
        console.note(f"this format does not hold {'; '.join(result.lost)}")
    for note in result.notes:
        console.note(note)
