"""compare an environment with its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.options import add_build_options
from provision.cli.outcome import Outcome, findings_if

if TYPE_CHECKING:
    import argparse

    from provision.commands.build import BuildResult
    from provision.core.project import Project
    from provision.environment.verify import Verification
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, the depth, and how a repair builds."""
    parser.add_argument("target")
    parser.add_argument("--deep", action="store_true", help="compare the hash of every file")
    parser.add_argument(
        "--repair", action="store_true", help="replace what drifted; implies --deep"
    )
    add_build_options(parser)


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[Verification] | Outcome[BuildResult]:
    """Compare the current generation with its lock, and repair it if asked."""
    from provision.commands.current import current_folder
    from provision.environment.verify import verify
    from provision.lockfile.pip import read_lock
    from provision.spec.reader import read_forbidden
    from provision.ui.verify import show_verification

    forbid = read_forbidden(project.specs, arguments.target)
    lock = read_lock(project.lock(arguments.target))
    folder = current_folder(project, arguments.target)
    result = verify(folder, lock, forbid, deep=arguments.deep or arguments.repair)
    if result.findings and arguments.repair:
        return _repair(result, arguments, project, console)
    return Outcome(result, show_verification, findings_if(result.findings))


def _repair(
    found: Verification, arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[BuildResult]:
    from provision.commands.repair import repair
    from provision.commands.request import build_request
    from provision.core.process import run
    from provision.ui.build import show_build

    for finding in found.findings:
        console.finding(finding)
    request = build_request(
        project,
        arguments.target,
        console,
        wheelhouses=arguments.wheelhouse,
        offline=arguments.offline,
        smoke=not arguments.no_smoke,
    )
    built = repair(found, request, run, console)
    return Outcome(built, show_build, findings_if(not built.generation))
