"""Show an export."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.commands.export import Export
    from provision.ui.console import Console


def show_export(result: Export, console: Console) -> None:
    """Print the text, or where it was written; and what the format does not hold."""
    if result.file:
        console.line(f"{result.target} as {result.format}: {result.file}", "bold green")
    else:
        sys.stdout.write(result.text)
    if result.lost:
        console.note(f"this format does not hold {'; '.join(result.lost)}")
    for note in result.notes:
        console.note(note)
