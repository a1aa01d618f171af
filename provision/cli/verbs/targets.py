"""list every target: lock, environment, last verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome

if TYPE_CHECKING:
    import argparse

    from provision.commands.status import ProjectStatus
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def handle(_: argparse.Namespace, project: Project, __: Console) -> Outcome[ProjectStatus]:
    """Show the state of every target."""
    from provision.commands.status import UNREADABLE, target_statuses
    from provision.core.errors import Exit
    from provision.ui.targets import show_overview

    found = target_statuses(project)
    broken = any(row.platform == UNREADABLE for row in found.rows)
    return Outcome(found, show_overview, Exit.USAGE if broken else Exit.OK)
