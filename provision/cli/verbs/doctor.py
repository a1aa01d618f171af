"""what is wrong with an environment, a log, a repository, a program, this machine."""

from provision.cli.call import Call, Outcome, findings_if
from provision.core.errors import Exit, UsageError

ANYWHERE = True
_ANSWERS = {"not-environment": Exit.PROGRAM, "not-recognised": Exit.UNDECIDED}


def handle(call: Call) -> Outcome | int:
    from provision.commands.diagnose import diagnose, diagnose_log_file, diagnose_repository
    from provision.ui.console import print_text
    from provision.ui.results import show_diagnosis

    wanted, result = call.arguments, None
    if wanted.watch or wanted.command:
        return _watch(call)
    if wanted.log and wanted.report:
        raise UsageError("--report is for an environment or this machine", remedy="omit --log")
    if wanted.log:
        result = diagnose_log_file(wanted.log)
    elif wanted.project and not (wanted.python or wanted.target or wanted.report):
        result = diagnose_repository(wanted.project.absolute(), call.project)
    if result is None:
        result, host, prefix = diagnose(call.project, python=wanted.python, target=wanted.target)
        if wanted.report:
            from provision.doctor.report import report

            text = report(result, host, prefix)
            return Outcome(text, lambda text, _: print_text(text), findings_if(result.bad))
    answers = (_ANSWERS[found.code] for found in result.findings if found.code in _ANSWERS)
    return Outcome(result, show_diagnosis, findings_if(result.bad) or next(answers, Exit.OK))


def _watch(call: Call) -> int:
    from provision.commands.watch import watch

    wanted = call.arguments
    if not wanted.watch:
        wanted.refuse(f"unexpected argument {wanted.command[0]}: only --watch takes a command")
    if not wanted.command or wanted.json or wanted.report:
        raise UsageError.of("nothing-to-watch")
    code, findings = watch(wanted.command)
    for finding in findings:
        call.console.finding(finding)
    return code
