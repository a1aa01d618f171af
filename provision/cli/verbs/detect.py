"""this machine: devices, drivers, and which target fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome

if TYPE_CHECKING:
    import argparse

    from provision.commands.detect import Detection
    from provision.core.project import Project
    from provision.ui.console import Console

ANYWHERE = True


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def handle(_: argparse.Namespace, project: Project, __: Console) -> Outcome[Detection]:
    """Compare this machine with every target."""
    from provision.commands.machine import detect_machine
    from provision.ui.detect import show_detection

    return Outcome(detect_machine(project), show_detection)
