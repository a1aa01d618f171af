"""remove requirements from a spec, lock it and build it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome, each, findings_if
from provision.cli.verbs.add import add_edit_options, edit

if TYPE_CHECKING:
    import argparse

    from provision.commands.edit_spec import Edited
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, the distributions and how the rest is built."""
    add_edit_options(parser, "NAME", "a distribution")


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[list[Edited]]:
    """Edit, lock and build."""
    from provision.commands.edit_spec import remove_from
    from provision.ui.lock import show_edited

    remove = functools.partial(remove_from, names=arguments.words)
    done = edit(remove, arguments, project, console)
    return Outcome(done, each(show_edited), findings_if(any(one.failed for one in done)))
