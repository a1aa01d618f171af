"""make a project of this repository: a spec per target, and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome

if TYPE_CHECKING:
    import argparse

    from provision.commands.init import Initialized
    from provision.core.project import Project
    from provision.ui.console import Console

ANYWHERE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the targets."""
    parser.add_argument(
        "--target", action="append", default=[], metavar="T",
        help="a shipped target, may be given again; this machine's and the CPU's if none is named",
    )  # fmt: skip


def handle(arguments: argparse.Namespace, project: Project, _: Console) -> Outcome[Initialized]:
    """Write what is missing."""
    from pathlib import Path

    from provision.commands.init import initialize
    from provision.commands.machine import fitting_shipped_targets
    from provision.core.project import Project
    from provision.ui.init import show_initialized

    # Not the project of a folder above this one.
    here = Project((arguments.project or Path.cwd()).absolute())
    names = arguments.target or fitting_shipped_targets(project)
    return Outcome(initialize(here, names), show_initialized)
