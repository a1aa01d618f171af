"""everything that a machine without a network needs."""

from provision.cli.call import Call, Outcome, findings_if


def handle(call: Call) -> Outcome:
    from provision.commands.bundle import bundle
    from provision.ui.template import template

    folder = call.arguments.output.absolute()
    result = bundle(
        call.project,
        call.target,
        call.lock,
        supply=call.supply,
        folder=folder,
        progress=call.console,
    )
    return Outcome(result, template("bundle"), findings_if(result.missing))
