"""compare an environment with its lock."""

from argparse import ArgumentParser
from functools import partial

from provision.cli.call import Call, Outcome, findings_if
from provision.cli.options import add_build, add_contract, add_target
from provision.cli.verbs.build import build_request
from provision.commands.freshness import note_on_lock
from provision.commands.machine import host_reader
from provision.commands.repair import finish, repair
from provision.commands.verify import verify_current
from provision.core.process import run
from provision.ui.results import differences, show_repaired, show_verification


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--deep", action="store_true", help="compare the hash of every file"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="do --deep, and replace what differs from the lock",
    )
    add_build(parser)
    add_contract(parser)


def handle(call: Call) -> Outcome:
    options, target = call.arguments, call.arguments.target
    if change := note_on_lock(call.target, call.project):
        call.console.note(change)
    deep = options.deep or options.repair
    if deep:
        call.console.step("comparing every file with its hash")
    verification = verify_current(call.project, target, deep=deep)
    if not options.repair:
        return Outcome(
            verification, show_verification, findings_if(verification.findings)
        )
    if not verification.findings:
        finish(call.project, target, call.console)
        return Outcome(verification, show_verification)
    call.console.finding(differences(verification.findings))
    request = build_request(call, target, host_reader(call.project))
    built = repair(verification, request, run, call.console)
    return Outcome(
        built,
        partial(show_repaired, drifted=verification.drifted),
        findings_if(not built.generation),
    )
