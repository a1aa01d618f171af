"""everything that a machine without a network needs."""

from pathlib import Path

from provision.cli.call import Call, Outcome, Parser, add_wheelhouse, findings_if


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="the target's name")
    where = "a folder that does not exist, or an earlier bundle to complete"
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help=where)
    add_wheelhouse(parser)


def handle(call: Call) -> Outcome:
    from provision.commands.bundle import bundle
    from provision.ui.results import show_bundle

    folder = call.arguments.output.absolute()
    result = bundle(
        call.project, call.target, call.lock, supply=call.supply, folder=folder,
        progress=call.console,
    )  # fmt: skip
    return Outcome(result, show_bundle, findings_if(result.missing))
