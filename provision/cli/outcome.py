"""The return value of a verb's handler: its result, and the function that prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from provision.core.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.ui.console import Console

Result = TypeVar("Result")


class Outcome(Generic[Result]):
    """The result of a verb and the function that prints it.

    Both are arguments of one constructor, so that ``nox -s lint`` reports a function that does not
    take this type of result, and no result can be returned without one.

    Attributes:
        result: Data; ``--json`` prints it.
        show: Prints it for a person.
        code: The exit code.
    """

    # Not a dataclass, whose import takes longer than a build with nothing to do.
    __slots__ = ("code", "result", "show")

    def __init__(
        self, result: Result, show: Callable[[Result, Console], None], code: int = Exit.OK
    ) -> None:
        self.result = result
        self.show = show
        self.code = code


def each(show: Callable[[Result, Console], None]) -> Callable[[list[Result], Console], None]:
    """Return the view of a list of results, from the view of one."""

    def show_each(results: list[Result], console: Console) -> None:
        for result in results:
            show(result, console)

    return show_each


def findings_if(bad: object) -> Exit:
    """Return the exit code of a verb that judges."""
    return Exit.FINDINGS if bad else Exit.OK
