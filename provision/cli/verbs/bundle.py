"""collect all files that a machine without a network needs for a build."""

from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome, findings_if
from provision.cli.options import add_target, add_wheelhouse
from provision.commands.bundle import bundle
from provision.commands.request import artifact_sources, require_fresh_lock
from provision.ui.results import show_bundle


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="a folder that does not exist, or an earlier bundle to complete",
    )
    add_wheelhouse(parser)


def handle(call: Call) -> Outcome:
    project, target, options = call.project, call.target, call.arguments
    result = bundle(
        project,
        target,
        require_fresh_lock(project, target),
        supply=artifact_sources(project, target, options.wheelhouse),
        folder=options.output.absolute(),
        progress=call.console,
    )
    return Outcome(result, show_bundle, findings_if(result.missing))
