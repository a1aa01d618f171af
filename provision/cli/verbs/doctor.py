"""find what is wrong with an environment, a log, a repository or this machine."""

from argparse import ArgumentParser
from functools import partial

from provision.cli.call import Call, Outcome, findings_if
from provision.commands.diagnose import (
    diagnose,
    diagnose_repository,
    read_log_file,
    with_log,
)
from provision.commands.freshness import note_on_lock
from provision.core.errors import Exit
from provision.doctor.report import report
from provision.spec.reader import load_targets, target_names
from provision.ui.console import print_text
from provision.ui.results import show_diagnosis

ANYWHERE = True
_ANSWERS = {"not-environment": Exit.PROGRAM, "not-recognised": Exit.UNDECIDED}


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the environment's interpreter: its path, its folder, or a command such as python3",
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="a file with the output of a program; - reads stdin",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print one text for an issue, without private data",
    )
    parser.add_argument(
        "--target",
        help="the target that the environment is compared with; without --python, the one built here",
    )


def handle(call: Call) -> Outcome:
    options = call.arguments
    found = host = prefix = log = None
    if options.log is not None:
        log = read_log_file(options.log)
    environment = options.python or options.target
    has_notes = _note_locks(call)
    if options.project and not (environment or log):
        found = diagnose_repository(options.project.absolute(), call.project)
        if not found:
            call.console.note(
                f"{options.project.absolute()} has no file of another tool that the doctor examines: "
                "this is about the machine"
            )
    if not found and (environment or not log):
        found, host, prefix = diagnose(
            call.project, python=options.python, target=options.target
        )
    result = with_log(found, options.log, log, prefix)
    code = findings_if(result.bad)
    if not result.bad:
        for finding in reversed(result.findings):
            code = _ANSWERS.get(finding.code, code)
    if options.report:
        text = report(result, host, prefix, log)
        return Outcome(text, lambda text, _: print_text(text), code)
    return Outcome(
        result, partial(show_diagnosis, log=options.log, has_notes=has_notes), code
    )


def _note_locks(call: Call) -> bool:
    """Note which environments lack a change of the target, or project, that is named."""
    options, specs = call.arguments, call.project.specs
    if options.python or not (options.target or options.project):
        return False
    has_notes = False
    names = [options.target] if options.target else target_names(specs)
    targets, _ = load_targets(specs, names)
    for target in targets:
        if change := note_on_lock(target, call.project):
            call.console.note(change)
            has_notes = True
    return has_notes
