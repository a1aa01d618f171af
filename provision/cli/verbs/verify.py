"""compare an environment with its lock."""

from provision.cli.call import Call, Outcome, findings_if


def handle(call: Call) -> Outcome:
    from provision.commands.verify import verify_current
    from provision.ui.results import show_verification

    wanted = call.arguments
    if deep := wanted.deep or wanted.repair:
        call.console.step("comparing every file with its hash")
    found = verify_current(call.project, wanted.target, deep=deep)
    if not wanted.repair:
        return Outcome(found, show_verification, findings_if(found.findings))
    from provision.commands.repair import finish, repair
    from provision.core.process import run
    from provision.ui.results import show_build

    if not found.findings:
        finish(call.project, wanted.target, call.console)
        return Outcome(found, show_verification)
    for finding in found.findings:
        call.console.finding(finding)
    built = repair(found, call.build_request(), run, call.console)
    return Outcome(built, show_build, findings_if(not built.generation))
