"""The protocol by which a long verb reports its progress."""

from typing import Any, Protocol


class Progress(Protocol):
    """Receives progress; the console prints it, tests record it."""

    def step(self, text: str) -> None:
        """Report what this thread does now; an empty text: nothing more."""

    def note(self, text: str) -> None:
        """Report something that should stay readable afterwards."""

    def show(self, **how: Any) -> None:  # noqa: ANN401 - as rich takes it
        """Report how far the step of this thread is: in bytes, or in checks.

        ``files``: bytes done and in all, by name. Or ``completed`` and ``total`` checks, the one
        that runs ``now``, and those that have just ``ended``, as entries of a report.
        """
