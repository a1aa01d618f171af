"""The protocol by which a long verb reports its progress."""

from collections.abc import Callable
from typing import Any, Protocol

Look = Callable[[], dict[str, Any]]


class Progress(Protocol):
    """Receives progress; the console prints it, tests record it."""

    def step(self, text: str, look: Look = dict) -> None:
        """Report what this thread does now; an empty text: nothing more.

        ``look`` is asked again and again how far it is: ``files``, bytes done and in all by name;
        or how many checks of a ``total`` are ``completed``, the one that runs ``now``, and those
        that have ``ended`` since the last look, as entries of a report; of a long run also ``areas``,
        those of each area whose last check has ended since then.
        """

    def note(self, text: str) -> None:
        """Report something that should stay readable afterwards."""
