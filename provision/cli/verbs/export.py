"""write a target in the format of another installer: pylock.toml, requirements, conda; variants."""

from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome
from provision.cli.options import add_output, add_target, add_wheelhouse
from provision.commands.export import export, export_variants
from provision.commands.request import artifact_sources, require_fresh_lock
from provision.core.errors import UsageError
from provision.ui.results import show_export


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--format",
        required=True,
        metavar="F",
        choices=("pylock", "requirements", "environment", "variants"),
        help="%(choices)s",
    )
    parser.add_argument(
        "--variants-json",
        type=Path,
        metavar="FILE",
        help="of a release: with its providers replaced by what the target's machines have",
    )
    add_output(parser, "write it to FILE")
    add_wheelhouse(parser)


def handle(call: Call) -> Outcome:
    project, target, file = call.project, call.target, call.arguments.output
    file = file and file.absolute()
    release = call.arguments.variants_json
    if call.arguments.format == "variants":
        made = export_variants(project, target, file, release)
        return Outcome(made, show_export)
    if release:
        raise UsageError(
            "--variants-json is for --format variants",
            remedy="drop one of the two, or both",
        )
    exported = export(
        project,
        target,
        require_fresh_lock(project, target),
        supply=artifact_sources(project, target, call.arguments.wheelhouse),
        kind=call.arguments.format,
        file=file,
        progress=call.console,
    )
    return Outcome(exported, show_export)
