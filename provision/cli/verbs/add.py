"""add requirements to a spec, lock it and build it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from provision.cli.options import add_build_options
from provision.cli.outcome import Outcome, each, findings_if

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from provision.commands.edit_spec import Edited
    from provision.core.project import Project
    from provision.spec.model import Target
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, the requirements and how they are built."""
    add_edit_options(parser, "REQ", "such as 'einops>=0.8'")
    parser.add_argument("--index", metavar="NAME", help="the catalog index that they come from")


def add_edit_options(parser: argparse.ArgumentParser, words: str, meaning: str) -> None:
    """Add what ``remove`` takes too."""
    parser.add_argument("target", help="a target's name, or `all`")
    parser.add_argument("words", nargs="+", metavar=words, help=meaning)
    parser.add_argument("--no-build", action="store_true", help="only edit and lock")
    add_build_options(parser)


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[list[Edited]]:
    """Edit, lock and build."""
    from provision.commands.edit_spec import add_to
    from provision.ui.lock import show_edited

    add = functools.partial(add_to, requirements=arguments.words, index=arguments.index)
    done = edit(add, arguments, project, console)
    return Outcome(done, each(show_edited), findings_if(any(one.failed for one in done)))


def edit(
    change: Callable[[Path], Target],
    arguments: argparse.Namespace,
    project: Project,
    console: Console,
) -> list[Edited]:
    """Edit and lock targets, then build those of this platform; of all, those built before."""
    from provision.cli.verbs.build import build_named
    from provision.cli.verbs.lock import make_resolver
    from provision.commands.edit_spec import Edited, edit_and_lock
    from provision.commands.up_to_date import fingerprint
    from provision.core.project import CURRENT
    from provision.host.probe import this_platform
    from provision.spec.reader import load_target, target_names

    every = arguments.target == "all"
    names = target_names(project.specs) if every else [arguments.target]
    targets = [load_target(project.specs, name) for name in names]
    done = []
    for target, lock in zip(
        targets,
        edit_and_lock(names, change, project, make_resolver(project, console)),
        strict=True,
    ):
        wanted = not every or (project.environments(target.name) / CURRENT).exists()
        built = None
        if wanted and target.platform == this_platform() and not arguments.no_build:
            arguments.target = target.name
            before = fingerprint(project, target.name)
            built = build_named(arguments, project, console, before).result
        done.append(Edited(lock, built))
    return done
