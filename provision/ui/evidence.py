"""Show evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.commands.evidence import Evidence
    from provision.ui.console import Console

_STYLES = {"valid": "bold green", "stale": "yellow", "refused": "bold red"}


def show_evidence(result: Evidence, console: Console) -> None:
    """Print what a file proves on which device, and by whose key; or why it does not."""
    console.line(f"{result.state}: {result.file}", _STYLES[result.state])
    if result.target:
        driver = "" if result.driver == "-" else f", driver {result.driver}"
        console.line(
            f"  {result.target} on {result.device}{driver}, {result.day}, {result.checks} checks, "
            f"key {result.key}"
        )
    if result.reason:
        console.line(f"  {result.reason}")
