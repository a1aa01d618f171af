"""How far a long run of checks is, where no bar is drawn: a line for each area that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from provision.core.interruption import is_interrupted
from provision.core.progress import Look
from provision.ui.console import show

if TYPE_CHECKING:
    from rich.console import Console

_PAUSE = 0.5  # seconds between two looks
_OUTCOMES = ("passed", "warned", "failed")  # in the order in which they are counted


class Areas(Thread):
    """Prints each area of checks when it has ended, until the step is over."""

    def __init__(self, look: Look, screen: Console) -> None:
        super().__init__(daemon=True)
        self._look, self._screen, self._over = look, screen, Event()

    def run(self) -> None:
        """Look again and again."""
        while not self._over.wait(_PAUSE):
            self._print()

    def close(self) -> None:
        """End it, and print what has ended since the last look."""
        self._over.set()
        self.join()
        self._print()

    def _print(self) -> None:
        for area, results in self._look()["areas"].items():
            if not is_interrupted():  # what stopped is no news
                show(self._screen, f"· {area}: {_ended(results)}", "dim")


def _ended(results: Sequence[Mapping[str, Any]]) -> str:
    """Return how the checks of an area ended, with the names of those that did not pass."""
    parts = []
    for outcome in _OUTCOMES:
        names = [result["id"] for result in results if result["outcome"] == outcome]
        if not names:
            continue
        part = f"{len(names)} {outcome}"
        if outcome != "passed":
            part += f" ({', '.join(names)})"
        parts.append(part)
    seconds = sum(result["seconds"] for result in results)
    return f"{', '.join(parts)}, {seconds:.1f} s"
