"""what is wrong with an environment, a log, a repository, this machine."""

from functools import partial

from provision.cli.call import Call, Outcome, findings_if
from provision.core.errors import Exit

ANYWHERE = True
_ANSWERS = {"not-environment": Exit.PROGRAM, "not-recognised": Exit.UNDECIDED}


def handle(call: Call) -> Outcome:
    from provision.commands.diagnose import (
        diagnose,
        diagnose_repository,
        read_log_file,
        with_log,
    )
    from provision.ui.console import print_text
    from provision.ui.results import show_diagnosis

    wanted, found, host, prefix = call.arguments, None, None, None
    log = None if wanted.log is None else read_log_file(wanted.log)
    environment = wanted.python or wanted.target
    if wanted.project and not (environment or log or wanted.report):
        found = diagnose_repository(wanted.project.absolute(), call.project)
    if not found and (environment or not log):
        found, host, prefix = diagnose(
            call.project, python=wanted.python, target=wanted.target
        )
    result = with_log(found, wanted.log, log)
    answers = (
        _ANSWERS[found.code] for found in result.findings if found.code in _ANSWERS
    )
    code = findings_if(result.bad) or next(answers, Exit.OK)
    if wanted.report:
        from provision.doctor.report import report

        return Outcome(
            report(result, host, prefix, log), lambda text, _: print_text(text), code
        )
    return Outcome(result, partial(show_diagnosis, log=wanted.log), code)
