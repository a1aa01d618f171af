"""go back to the generation before the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome

if TYPE_CHECKING:
    import argparse

    from provision.commands.generations import RolledBack
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target."""
    parser.add_argument("target")


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[RolledBack]:
    """Make the previous generation current."""
    from provision.commands.generations import rollback
    from provision.spec.reader import load_target
    from provision.ui.generations import show_rollback

    target = load_target(project.specs, arguments.target)
    return Outcome(rollback(project, target.name, console), show_rollback)
