"""remove requirements from a spec, lock it and build it."""

from provision.cli.call import Call, Outcome
from provision.cli.verbs.add import edit


def handle(call: Call) -> Outcome:
    from provision.commands.edit_spec import remove_from, still_locked

    named, words = call.arguments.target, call.arguments.words
    done = edit(lambda path: remove_from(path, words), call)
    for stays in still_locked(call.project, named, words):
        call.console.note(stays)
    return done
