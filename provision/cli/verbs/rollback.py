"""go back to the generation that was in use before."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.cli.options import add_target
from provision.commands.generations import rollback
from provision.ui.results import show_rollback


def declare(parser: ArgumentParser) -> None:
    add_target(parser)


def handle(call: Call) -> Outcome:
    result = rollback(call.project, call.target.name, call.console)
    return Outcome(result, show_rollback)
