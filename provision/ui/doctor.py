"""Show a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.core.findings import Diagnosis
    from provision.ui.console import Console


def show_diagnosis(result: Diagnosis, console: Console) -> None:
    """Print the facts, then the findings."""
    width = max(map(len, result.facts), default=0) + 1
    for name, value in result.facts.items():
        console.line(f"  {name + ':':<{width}} {value}", "dim")
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        console.line(f"{result.patient}: no known fault was found", "green")
