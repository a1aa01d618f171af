"""install a Jupyter kernel that follows the current generation, and print IDE settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome

if TYPE_CHECKING:
    import argparse

    from provision.commands.kernel import Kernel
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target and where the kernel goes."""
    parser.add_argument("target")
    parser.add_argument(
        "--prefix", type=Path, metavar="DIR", help="for the Jupyter of this environment only"
    )


def handle(arguments: argparse.Namespace, project: Project, _console: Console) -> Outcome[Kernel]:
    """Install the kernel."""
    from provision.commands.kernel import install_kernel
    from provision.ui.kernel import show_kernel

    return Outcome(install_kernel(project, arguments.target, arguments.prefix), show_kernel)
