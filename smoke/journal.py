"""The journal: one JSON line per event, written at once, so that a crash loses nothing.

The worker writes it, the supervisor reads it; it is all they share. Events, by their key:

``torch``   version of torch, as imported.
``device``  what the device says about itself.
``start``   a check begins: its id, title and what it stands for.
``step``    the running check is about to do this.
``result``  a check has ended: one entry of the report.
``broken``  the suite itself can't go on, and why.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Running(NamedTuple):
    """The check that a worker is at: its headline, for how many seconds, and its last step."""

    check: dict[str, Any]
    seconds: float
    step: str | None


class Journal:
    """Events of one run, appended and read back in order."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, **event: object) -> None:
        """Append one event."""
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"at": time.time(), **event}) + "\n")

    def size(self) -> int:
        """Return the journal's size in bytes: it grows as long as something happens."""
        return self.path.stat().st_size if self.path.exists() else 0

    def events(self) -> list[dict[str, Any]]:
        """Return all events; a half-written last line is left for the next look."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def results(self) -> list[dict[str, Any]]:
        """Return the results so far, in the order in which the checks ended."""
        return [event["result"] for event in self.events() if "result" in event]

    def last(self, key: str) -> Any:  # noqa: ANN401 - events hold plain JSON of any shape
        """Return what the last event of this kind holds, or None."""
        return next((event[key] for event in reversed(self.events()) if key in event), None)

    def running(self) -> Running | None:
        """Return the check that began and has not ended, or None."""
        step = None
        for event in reversed(self.events()):
            if "result" in event:
                return None
            if "start" in event:
                return Running(event["start"], time.time() - event["at"], step)
            step = step or event.get("step")
        return None
