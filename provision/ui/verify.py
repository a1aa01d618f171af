"""Show a verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.text import size

if TYPE_CHECKING:
    from provision.environment.verify import Verification
    from provision.ui.console import Console


def show_verification(result: Verification, console: Console) -> None:
    """Print the findings, or the extent of the comparison."""
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        depth = "every hash" if result.tree else "every size"
        console.line(
            f"as locked: {result.distributions} packages, {result.files} files, "
            f"{size(result.size)}, {depth} compared",
            "green",
        )
