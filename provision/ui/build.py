"""Show how a build ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.text import size
from provision.ui.smoke import show_report, verdict
from provision.ui.up_to_date import show_next_steps, up_to_date_line

if TYPE_CHECKING:
    from provision.commands.build import BuildResult
    from provision.ui.console import Console


def show_build(result: BuildResult, console: Console) -> None:
    """Print the checks, the verdict, and what to do next."""
    if result.report:
        show_report(result.report, console)
    if result.generation is None:
        console.line(f"{result.target}: the checks failed, nothing was changed", "bold red")
        console.line("`--no-smoke` builds it without them, so that it can be examined")
        return
    record = result.generation.record
    if result.plan is None and result.report is None:
        console.line(up_to_date_line(result.target, record.proof, record.built), "green")
    else:
        console.line(
            f"{result.target} is ready: {len(record.distributions)} packages, "
            f"{record.files} files, {size(record.size)}, every file as locked"
            + (f", {verdict(result.report)}" if result.report else ""),
            "bold green",
        )
    if record.proof == "unproven":
        console.note(f"unproven: {record.reason}")
    elif record.proof == "skipped":
        check = f"{console.program} smoke {result.target}"
        console.note(f"not proven: the checks were left out; `{check}`")
    show_next_steps(result.target, result.generation.folder, console)
