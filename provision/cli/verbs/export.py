"""a target in the format of another installer: pylock.toml, requirements, conda."""

from provision.cli.call import Call, Outcome


def handle(call: Call) -> Outcome:
    from provision.commands.export import export
    from provision.ui.results import show_export

    kind, file = call.arguments.format, call.arguments.output
    file = file.absolute() if file else None
    made = export(
        call.project, call.target, call.lock, supply=call.supply, kind=kind, file=file
    )
    return Outcome(made, show_export)
