"""list every target: lock, environment, last verdict."""

from provision.cli.call import Call, Outcome
from provision.core.errors import Exit


def handle(call: Call) -> Outcome:
    from provision.commands.status import UNREADABLE, target_statuses
    from provision.ui.results import show_overview

    found = target_statuses(call.project)
    broken = any(row.platform == UNREADABLE for row in found.rows)
    return Outcome(found, show_overview, Exit.USAGE if broken else Exit.OK)
