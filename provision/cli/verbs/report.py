"""one HTML page of a target's reports on this host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import Exit, UsageError
from provision.core.program import program_name

if TYPE_CHECKING:
    import argparse

    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target and the file."""
    parser.add_argument("target")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: TARGET.html")


def handle(arguments: argparse.Namespace, project: Project, console: Console) -> int:
    """Write the page."""
    from provision.core.filesystem import write_atomic
    from provision.report.history import history, read_reports
    from provision.spec.reader import load_target
    from provision.ui.html_report import render_page

    target = load_target(project.specs, arguments.target)
    kept = list(read_reports(history(project, target.name), console.note))
    if not kept:
        raise UsageError(
            f"{target.name} has no report on this host",
            remedy=f"`{program_name()} smoke {target.name}` makes one",
        )
    out = arguments.output or Path(f"{target.name}.html")
    write_atomic(out, render_page(kept))
    console.line(f"{out}: {len(kept)} reports")
    return Exit.OK
