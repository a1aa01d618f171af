"""How a verb that takes time tells what it does, without knowing who listens."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A listener; the console shows it, tests record it."""

    def step(self, text: str) -> None:
        """Say what is being done now."""

    def note(self, text: str) -> None:
        """Say something that should stay readable afterwards."""
