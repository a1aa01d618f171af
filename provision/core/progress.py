"""The protocol by which a long verb reports its progress."""

from typing import Protocol


class Progress(Protocol):
    """Receives progress; the console prints it, tests record it."""

    def step(self, text: str) -> None:
        """Report what is being done now."""

    def note(self, text: str) -> None:
        """Report something that should stay readable afterwards."""
