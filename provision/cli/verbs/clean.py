"""remove generations that are not in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome, each
from provision.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from provision.commands.generations import Cleaned
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the targets and what stays."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them if none is named")
    parser.add_argument(
        "--keep", type=int, default=0, metavar="N", help="keep N besides the current one"
    )
    parser.add_argument("--all", action="store_true", help="remove the current one too")


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[list[Cleaned]]:
    """Remove generations of the named targets."""
    from provision.commands.generations import clean
    from provision.spec.reader import load_target, target_names
    from provision.ui.generations import show_cleaned

    if arguments.keep < 0:
        raise UsageError("--keep takes a number from 0 up")
    known = target_names(project.specs)
    names = [load_target(project.specs, name).name for name in arguments.targets] or known
    cleaned: list[Cleaned] = []
    show = each(show_cleaned)
    try:
        for name in names:
            options = {"keep": arguments.keep, "everything": arguments.all}
            cleaned.append(clean(project, name, console, **options))
    except KeyboardInterrupt:
        show(cleaned, console)
        raise
    return Outcome(cleaned, show)
