"""go back to the generation before the current one."""

from provision.cli.call import Call, Outcome, Parser


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="the target's name")


def handle(call: Call) -> Outcome:
    from provision.commands.generations import rollback
    from provision.ui.results import show_rollback

    return Outcome(rollback(call.project, call.target.name, call.console), show_rollback)
