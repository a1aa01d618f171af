"""Show what ``init`` wrote, changed and left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.commands.init import Initialized
    from provision.ui.console import Console


def show_initialized(result: Initialized, console: Console) -> None:
    """Print the files that were written, then what a person may want to change."""
    console.line(f"wrote {', '.join(result.written) or 'nothing'}", "green")
    for target in result.targets:
        if target.spec is None:
            console.line(f"{target.name}: envs/{target.name}.toml exists and stays as it is")
        for text in target.done:
            console.line(f"{target.name}: {text}")
        for text in target.left:
            console.line(f"{target.name}: left out: {text}", "yellow")
    for text in result.left:
        console.line(f"not carried over: {text}", "yellow")
    if result.empty:
        console.line("none of the repository's requirements is in a spec", "red")
        return
    for target in result.targets:
        verb = "build" if target.locked else "lock"
        console.line(f"next: {console.program} {verb} {target.name}")
