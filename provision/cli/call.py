"""What the handler of a verb gets, and what it returns."""

from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from provision.core.errors import Exit
from provision.core.project import Project
from provision.spec.model import Target
from provision.spec.reader import load_target
from provision.ui.console import Console

Result = TypeVar("Result")


@dataclass
class Call:
    """A command as it was typed."""

    arguments: Namespace
    project: Project
    console: Console

    @cached_property
    def target(self) -> Target:
        """The spec of the target that is named."""
        return load_target(self.project.specs, self.arguments.target)


class Outcome:
    """The result of a verb, the function that prints it, and the exit code.

    Both are arguments of one constructor, so that ``nox -s lint`` reports a function that does not
    take this type of result, and no result can be returned without one.
    """

    def __init__(
        self,
        result: Result,
        show: Callable[[Result, Console], None],
        code: int = Exit.OK,
    ) -> None:
        self.result: object = result
        self.show = lambda console: show(result, console)
        self.code = code


def each(
    show: Callable[[Result, Console], None],
) -> Callable[[list[Result], Console], None]:
    """The view of a list of results, from the view of one; an error is shown as such."""

    def show_each(results: list[Result], console: Console) -> None:
        for result in results:
            if error := getattr(result, "error", None):
                console.error(error)
            else:
                show(result, console)

    return show_each


def findings_if(bad: object) -> Exit:
    """The exit code of a verb that checks."""
    return Exit.FINDINGS if bad else Exit.OK


def worst(code: int, results: Iterable[Any]) -> int:
    """The exit code of several results: codes rise with severity, so the worst error decides."""
    codes = [int(result.error.exit_code) for result in results if result.error]
    return max([code, *codes])
