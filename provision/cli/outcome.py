"""What the handler of a verb returns: its result, and how a person sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from provision.core.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.ui.console import Console

Result = TypeVar("Result")


class Outcome(Generic[Result]):
    """The result of a verb, tied to the view of its type.

    The tie is an argument, so the type checker holds it: a result whose type the view does not
    take is an error of ``nox -s lint``, and a result without a view cannot be returned at all.

    Attributes:
        result: Data; ``--json`` prints it.
        show: Prints it for a person.
        code: The exit code.
    """

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
