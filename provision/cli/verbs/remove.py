"""remove requirements from a spec, lock it and build it."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome
from provision.cli.verbs.add import declare_edit, edit
from provision.commands.edit_spec import remove_from, still_locked


def declare(parser: ArgumentParser) -> None:
    declare_edit(parser, metavar="NAME", about="a distribution")


def handle(call: Call) -> Outcome:
    target, words = call.arguments.target, call.arguments.words
    outcome = edit(lambda path: remove_from(path, words), call)
    for stays in still_locked(call.project, target, words):
        call.console.note(stays)
    return outcome
