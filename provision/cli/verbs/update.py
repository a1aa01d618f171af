"""refresh the catalogs from the network."""

from provision.cli.call import Call, Outcome, each, findings_if


def handle(call: Call) -> Outcome:
    from provision.commands.update import update
    from provision.core.process import run
    from provision.spec.reader import load_spec, target_names
    from provision.ui.results import show_refresh

    project, names = call.project, call.arguments.names
    targets = [
        load_spec(project.specs / f"{name}.toml")
        for name in target_names(project.specs)
    ]
    results = update(
        project, targets, call.console, run, only=names, url=call.arguments.url
    )
    # Exit codes rise with severity, so the worst error decides.
    codes = [int(error.exit_code) for result in results for error in result.errors]
    code = max([*codes, findings_if(any(result.bad for result in results))])
    return Outcome(results, each(show_refresh), code)
