"""run the checks, and compare with the last good report."""

from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome
from provision.cli.options import add_contract, add_target, seconds
from provision.commands import smoke
from provision.commands.check import check, require_end
from provision.commands.freshness import note_on_lock
from provision.commands.machine import read_layers
from provision.commands.subject import from_interpreter
from provision.commands.suite import SmokeRequest
from provision.core.errors import UsageError
from provision.core.output import begins_with, require_replaceable
from provision.core.process import run
from provision.report.junit import MARK
from provision.ui.smoke import show_skipped, show_smoke


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    _declare_suites(parser)
    subjects = parser.add_mutually_exclusive_group()
    subjects.add_argument(
        "--if-driver-changed",
        action="store_true",
        help="run only if driver, kernel, runtime or lock changed since the last report of the suite",
    )
    parser.add_argument(
        "--max-age",
        type=seconds,
        metavar="TIME",
        help="with --if-driver-changed: also where that report is older",
    )
    subjects.add_argument(
        "--against",
        type=Path,
        metavar="PYTHON",
        help="check the environment of this interpreter, and keep no report",
    )
    parser.add_argument(
        "--device",
        default="",
        metavar="N",
        help="the number of a device, as torch counts, or `all`; default 0, with --full `all`",
    )
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write JUnit XML as well"
    )
    parser.add_argument(
        "--fail-if-slower",
        action="store_true",
        help="count a fall in speed as a failure: exit code 1 instead of 6",
    )
    add_contract(parser)


def _declare_suites(parser: ArgumentParser) -> None:
    suites = parser.add_mutually_exclusive_group()
    suites.add_argument(
        "--quick", action="store_true", help="the checks that a build runs; the default"
    )
    suites.add_argument("--full", action="store_true", help="all checks; takes minutes")
    suites.add_argument(
        "--health", action="store_true", help="the checks of the hardware, under load"
    )
    parser.add_argument(
        "--soak",
        type=seconds,
        metavar="TIME",
        help="with --full or --health: hold the load for 90s, 10m or 2h, and draw its course",
    )


def suite_of(options: object) -> str:
    """The suite that was asked for."""
    for suite in ("full", "health"):
        if getattr(options, suite):
            return suite
    return "quick"


def device_of(word: str) -> str:
    """The device that was asked for: a number, `all`, or "" for the default."""
    if word.isdecimal():
        return str(int(word))
    if word not in {"", "all"}:
        raise UsageError(f"--device {word}: neither a number nor `all`")
    return word


def handle(call: Call) -> Outcome:
    options, suite = call.arguments, suite_of(call.arguments)
    if options.soak and suite == "quick":
        raise UsageError(
            "--soak: the quick checks hold no load", remedy="add --health or --full"
        )
    if options.junit:  # before the suite takes minutes
        require_replaceable(options.junit, begins_with(MARK))
    request = SmokeRequest(
        call.project,
        call.target,
        read_layers(call.project),
        suite,
        options.soak,
        device_of(options.device),
        options.junit,
        options.fail_if_slower,
    )
    if options.max_age and not options.if_driver_changed:
        raise UsageError("--max-age: only --if-driver-changed looks at earlier reports")
    if not options.against and (change := note_on_lock(call.target, call.project)):
        call.console.note(change)
    if options.if_driver_changed:
        skipped = smoke.unchanged(request, call.console, options.max_age)
        if skipped:
            return Outcome(skipped, show_skipped, smoke.exit_code(skipped.word))
    if options.against:
        subject = from_interpreter(options.against, run)
        checked = check(request, subject, run, call.console)
        require_end(checked, subject)
        result = smoke.SmokeResult(checked.report, None)
    else:
        result = smoke.smoke(request, run, call.console)
    return Outcome(result, show_smoke, smoke.exit_code(result.report.word))
