"""print what is in a target, as CycloneDX JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.errors import Exit

if TYPE_CHECKING:
    import argparse

    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target."""
    parser.add_argument("target")


def handle(arguments: argparse.Namespace, project: Project, _: Console) -> int:
    """Print the bill of materials."""
    from provision.lockfile.pip import read_lock
    from provision.lockfile.sbom import sbom
    from provision.spec.reader import load_target
    from provision.ui.console import print_text

    target = load_target(project.specs, arguments.target)
    print_text(sbom(target, read_lock(project.lock(target.name))))
    return Exit.OK
