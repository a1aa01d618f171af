"""everything that a machine without a network needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.options import add_wheelhouse
from provision.cli.outcome import Outcome, findings_if

if TYPE_CHECKING:
    import argparse

    from provision.commands.bundle import Bundle
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target and the folder."""
    parser.add_argument("target")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR",
        help="a folder that does not exist, or an earlier bundle to complete",
    )  # fmt: skip
    add_wheelhouse(parser)


def handle(arguments: argparse.Namespace, project: Project, console: Console) -> Outcome[Bundle]:
    """Collect the artifacts; exit code 1 until the bundle is complete."""
    from provision.commands.bundle import bundle
    from provision.commands.request import artifact_sources, require_fresh_lock
    from provision.spec.reader import load_target
    from provision.ui.bundle import show_bundle

    target = load_target(project.specs, arguments.target)
    result = bundle(
        project,
        target,
        require_fresh_lock(project, target),
        supply=artifact_sources(project, target, arguments.wheelhouse),
        folder=arguments.output.absolute(),
        progress=console,
    )
    return Outcome(result, show_bundle, findings_if(result.missing))
