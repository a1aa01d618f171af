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
    from provision.commands.verify import verify_current
    from provision.ui.verify import show_verification

    deep = arguments.deep or arguments.repair
    result = verify_current(project, arguments.target, deep=deep)
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
