"""list every target: lock, environment, last verdict."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.commands.status import UNREADABLE, target_statuses
from provision.core.errors import Exit
from provision.ui.results import show_overview


def declare(_: ArgumentParser) -> None:
    """It has no options of its own."""


def handle(call: Call) -> Outcome:
    overview = target_statuses(call.project)
    broken = any(row.platform == UNREADABLE for row in overview.rows)
    return Outcome(overview, show_overview, Exit.USAGE if broken else Exit.OK)
