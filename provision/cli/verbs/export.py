"""a target in the format of another tool: pylock.toml, conda, uv, CI, cluster modules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome

if TYPE_CHECKING:
    import argparse

    from provision.commands.export import Export
    from provision.core.project import Project
    from provision.ui.console import Console

# Those of provision.lockfile.formats.LOST, which is slow to import.
FORMATS = ("pylock", "requirements", "environment", "uv", "devcontainer", "ci",
           "module", "apptainer")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, the format and the file."""
    parser.add_argument("target")
    parser.add_argument("--format", required=True, choices=FORMATS)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write it there instead of printing it"
    )


def handle(arguments: argparse.Namespace, project: Project, _: Console) -> Outcome[Export]:
    """Print or write the target's lock in the format."""
    from provision.commands.export import export
    from provision.commands.request import artifact_sources, require_fresh_lock
    from provision.spec.reader import load_target
    from provision.ui.export import show_export

    target = load_target(project.specs, arguments.target)
    result = export(
        project,
        target,
        require_fresh_lock(project, target),
        supply=artifact_sources(project, target, ()),
        kind=arguments.format,
        file=arguments.output.absolute() if arguments.output else None,
    )
    return Outcome(result, show_export)
