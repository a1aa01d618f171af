"""go back to the generation before the current one."""

from provision.cli.call import Call, Outcome


def handle(call: Call) -> Outcome:
    from provision.commands.generations import rollback
    from provision.ui.results import show_rollback

    return Outcome(
        rollback(call.project, call.target.name, call.console), show_rollback
    )
