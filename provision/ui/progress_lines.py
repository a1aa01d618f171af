"""How far a run of checks or a download is, where no bar is drawn: a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from provision.core.interruption import is_interrupted
from provision.core.progress import Look
from provision.core.text import size
from provision.ui.console import show

if TYPE_CHECKING:
    from rich.console import Console

INTERVAL = 10.0  # seconds between two counts
_PAUSE = 0.5  # seconds between two looks
_OUTCOMES = ("passed", "warned", "failed")  # in the order in which they are counted


class ProgressLines(Thread):
    """Prints how far a step is until it is over.

    Of checks that take minutes each area when it has ended, of others each 10 s how many have ended,
    of a download how many bytes are here: what takes seconds needs no more than its step.
    """

    def __init__(self, text: str, look: Look, screen: Console) -> None:
        super().__init__(daemon=True)
        self._text = text  # of the step
        self._look, self._screen, self._over = look, screen, Event()
        self._begun = time.monotonic()
        self._due = INTERVAL  # seconds since then

    def run(self) -> None:
        """Look again and again."""
        while not self._over.wait(_PAUSE):
            self._print(self._look())

    def close(self) -> None:
        """End it, and print the areas that have ended since the last look."""
        self._over.set()
        self.join()
        self._print({"areas": {}} | self._look())  # no count: the result follows

    def _print(self, progress: Mapping[str, Any]) -> None:
        for line in self._lines(progress):
            if not is_interrupted():  # what stopped is no news
                show(self._screen, f"· {line}", "dim")

    def _lines(self, progress: Mapping[str, Any]) -> Iterator[str]:
        if "areas" in progress:
            for area, results in progress["areas"].items():
                yield f"{area}: {_ended(results)}"
            return
        seconds = time.monotonic() - self._begun
        if seconds < self._due:
            return
        self._due += INTERVAL
        if "completed" in progress:
            yield _count(progress, seconds)
        elif progress["files"]:  # uv tells of none where it has no terminal
            yield f"{self._text}: {_bytes(progress['files'], seconds)}"


def _bytes(files: Mapping[str, tuple[int, int]], seconds: float) -> str:
    """Return how many bytes of some files are here, of how many, and after how long."""
    here = whole = 0
    for arrived, total in files.values():
        here += arrived
        whole += total
    if whole < here:  # a server need not tell it
        return f"{size(here)}, {seconds:.0f} s"
    return f"{size(here)} of {size(whole)}, {seconds:.0f} s"


def _count(progress: Mapping[str, Any], seconds: float) -> str:
    """Return how many checks have ended, after how long, and which one runs."""
    # Only torch knows the devices, so which checks are required is known when it is imported.
    line = "importing torch"
    if progress["total"]:
        line = f"{progress['completed']} of {progress['total']} checks"
    line += f", {seconds:.0f} s"
    if progress["now"]:
        line += f", now {progress['now']}"
    return line


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
