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
    from provision.commands.status import target_statuses
    from provision.ui.targets import show_overview

    return Outcome(target_statuses(project), show_overview)
