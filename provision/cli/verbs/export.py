"""a target in the format of another tool: pylock.toml, conda, uv, CI, cluster modules."""

from pathlib import Path

from provision.cli.call import Call, Outcome, Parser

# Those of provision.lockfile.formats.LOST, which is slow to import.
FORMATS = ("pylock", "requirements", "environment", "uv", "devcontainer", "ci",
           "module", "apptainer")  # fmt: skip


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="the target's name")
    parser.add_argument("--format", required=True, choices=FORMATS, metavar="F", help="%(choices)s")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it to FILE")


def handle(call: Call) -> Outcome:
    from provision.commands.export import export
    from provision.ui.results import show_export

    kind, file = call.arguments.format, call.arguments.output
    file = file.absolute() if file else None
    made = export(call.project, call.target, call.lock, supply=call.supply, kind=kind, file=file)
    return Outcome(made, show_export)
