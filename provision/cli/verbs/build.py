"""lock -> a verified, proven, current environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.options import add_build_options
from provision.cli.outcome import Outcome, findings_if

if TYPE_CHECKING:
    import argparse

    from provision.commands.build import BuildResult
    from provision.commands.up_to_date import UpToDate
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target and how it is built."""
    parser.add_argument("target", help="a target's name, or `auto` for the one that fits")
    add_build_options(parser)


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[BuildResult] | Outcome[UpToDate]:
    """Build a target, or the one that fits this machine."""
    if arguments.target == "auto":
        return _build_auto(arguments, project, console)
    from provision.commands.up_to_date import fingerprint, recall

    # Taken before the full path reads the same files, so that a file edited in between is noticed.
    before = fingerprint(project, arguments.target)
    # A folder that --wheelhouse names has to exist, which the full path checks.
    if not arguments.wheelhouse and (found := recall(project, arguments.target, before)):
        from provision.ui.up_to_date import show_up_to_date

        return Outcome(found, show_up_to_date)
    return build_named(arguments, project, console, before)


def build_named(
    arguments: argparse.Namespace, project: Project, console: Console, before: str
) -> Outcome[BuildResult]:
    """Build the target that the arguments name; ``before`` is its fingerprint."""
    from provision.commands.build import build
    from provision.commands.request import build_request
    from provision.commands.up_to_date import remember
    from provision.core.process import run
    from provision.ui.build import show_build

    request = build_request(
        project,
        arguments.target,
        console,
        wheelhouses=arguments.wheelhouse,
        offline=arguments.offline,
        smoke=not arguments.no_smoke,
    )
    built = build(request, run, console)
    if built.generation:
        remember(built.generation, request.target, before)
    return Outcome(built, show_build, findings_if(not built.generation))


def _build_auto(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[BuildResult]:
    from provision.commands.machine import choose_target, detect_machine
    from provision.commands.up_to_date import fingerprint
    from provision.ui.detect import show_detection

    found = detect_machine(project)
    show_detection(found, console)
    arguments.target = choose_target(found)
    outcome = build_named(arguments, project, console, fingerprint(project, arguments.target))
    # Repeated, because the output of the build has pushed the detection off the screen.
    for fit in found.better:
        console.note(f"{fit.target} fits this machine better; {fit.remedy}, then build again")
    return outcome
