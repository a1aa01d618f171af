"""run a command in the clean environment."""

import os
from argparse import ArgumentParser

from provision.cli.call import Call
from provision.cli.options import add_target
from provision.commands.current import hold_current
from provision.commands.dropped import not_yet_named
from provision.commands.freshness import note_on_lock
from provision.core.process import become
from provision.core.variables import program_environment


def declare(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="pass on a variable that is dropped otherwise",
    )
    parser.add_argument(
        "command", nargs="+", metavar="CMD", help="the command and its arguments"
    )


def handle(call: Call) -> int:
    target, console = call.target, call.console
    current, _ = hold_current(call.project, target.name)
    if why := current.misplaced():
        console.note(
            f"{target.name} {why}; `provision build {target.name}` builds it again"
        )
    if current.record.proof == "unproven":
        console.note(f"{target.name} is unproven: {current.record.reason}")
    if change := note_on_lock(target, call.project):
        console.note(change)
    environment, dropped = program_environment(
        os.environ,
        current.folder,
        target.variables(current.folder),  # under which the checks ran as well
        keep=[*target.run.keep, *call.arguments.env],
    )
    if not console.quiet and not console.detailed:
        dropped = not_yet_named(call.project.environments(target.name), dropped)
    if dropped and not console.quiet:
        names = ", ".join(dropped)
        console.note(f"not passed on: {names} (`--env NAME` passes one)")
    return become(call.arguments.command, env=environment)
