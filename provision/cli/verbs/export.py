"""write a target in the format of another installer: pylock.toml, requirements, conda."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.cli.options import add_output, add_target, add_wheelhouse
from provision.commands.export import export
from provision.commands.request import artifact_sources, require_fresh_lock
from provision.ui.results import show_export


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--format",
        required=True,
        metavar="F",
        choices=("pylock", "requirements", "environment"),
        help="%(choices)s",
    )
    add_output(parser, "write it to FILE")
    add_wheelhouse(parser)


def handle(call: Call) -> Outcome:
    project, target, file = call.project, call.target, call.arguments.output
    exported = export(
        project,
        target,
        require_fresh_lock(project, target),
        supply=artifact_sources(project, target, call.arguments.wheelhouse),
        kind=call.arguments.format,
        file=file and file.absolute(),
        progress=call.console,
    )
    return Outcome(exported, show_export)
