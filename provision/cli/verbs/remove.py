"""remove requirements, then lock and build."""

from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome
from provision.cli.verbs.add import declare_edit, edit, words_of
from provision.commands.edit_places import remove, require_removable
from provision.commands.edit_spec import named_targets, still_locked


def declare(parser: ArgumentParser) -> None:
    declare_edit(parser, metavar="NAME", about="a distribution, or ./path")


def handle(call: Call) -> Outcome:
    words = words_of(call)
    names = named_targets(call.project, call.arguments.target)
    paths = [call.project.specs / f"{name}.toml" for name in names]

    def change(path: Path) -> None:
        if path == paths[0]:  # before a file is edited that the next ones read, too
            require_removable(paths, words)
        remove(path, words)

    outcome = edit(change, call)
    for stays in still_locked(call.project, names, words.requirements):
        call.console.note(stays)
    return outcome
