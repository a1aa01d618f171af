"""remove requirements from a spec, lock it and build it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.verbs.add import add_edit_options, edit

if TYPE_CHECKING:
    from provision.cli.call import Call, Outcome, Parser


def add_arguments(parser: Parser) -> None:
    add_edit_options(parser, "NAME", "a distribution")


def handle(call: Call) -> Outcome:
    from provision.commands.edit_spec import remove_from

    return edit(lambda path: remove_from(path, call.arguments.words), call)
