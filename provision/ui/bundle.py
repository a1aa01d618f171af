"""Show a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.text import plural, size

if TYPE_CHECKING:
    from provision.commands.bundle import Bundle
    from provision.ui.console import Console


def show_bundle(result: Bundle, console: Console) -> None:
    """Print the missing files, or the next command."""
    for item in result.missing:
        console.line(f"missing: {item}", "bold red")
    words = f"{plural(result.files, 'file')}, {size(result.size)} in {result.folder}"
    if result.missing:
        console.line(f"{result.target} is not complete: {words}", "bold red")
        console.line("put what is missing into a folder and name it with --wheelhouse DIR")
        return
    console.line(f"{result.target} is complete: {words}", "bold green")
    console.line(f"Copy the folder; on the other machine run {result.command} in it")
