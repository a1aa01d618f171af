"""The journal: one JSON line per event, appended and closed at once, so that a crash loses nothing.

It is the whole protocol between worker and supervisor: the worker writes, the supervisor reads, and
adds the result of a check whose worker died. A fresh worker skips the checks that have a result.
Workers of several devices write to one journal: events of all but the first device have the device's
number as ``on``.
Events, by their key:

``torch``   version of torch, as imported.
``count``   how many devices there are.
``device``  the facts that a device reports, with its number.
``start``   a check begins: its id, title and what it stands for.
``step``    the next operation of the running check.
``alive``   the running check waits for a process that it started.
``result``  a check has ended: one entry of the report.
``required``      the headlines of all checks that a worker is to run, with those that have ended.
``not_required``  the other checks that it has collected, each with the reason.
``excused``   a check whose device lacks what it needs, with the reason: it has ended.
``operators``  names of operators that a check has run on the device.
``broken``  why the suite itself can't go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# An event, or what of it goes into the report.
Entry = dict[str, Any]


class Running(NamedTuple):
    """The check that a worker is running: its headline, seconds since its start, its last step."""

    check: Entry
    seconds: float
    step: str | None


class Journal:
    """Events of one run, appended and read back in order.

    Attributes:
        path: The file.
        index: The device whose events are written, and are those of `last` and `running`; 0 stands
            for the first one.
    """

    def __init__(self, path: Path, index: int = 0) -> None:
        self.path, self.index = path, index
        self._read: list[Entry] = []
        # In bytes, of what was read: a long run's is not read anew each time.
        self._end = 0

    def write(self, **event: object) -> None:
        """Append one event, with a single call of the system."""
        entry: Entry = {"at": time.time()}
        if self.index:
            entry["on"] = self.index
        line = json.dumps(entry | event).encode() + b"\n"
        with self.path.open("a+b", buffering=0) as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(end - 1, 0))
            # A worker that was killed while it wrote has left a part of a line.
            if end and stream.read(1) != b"\n":
                line = b"\n" + line
            stream.write(line)

    def events(self) -> list[Entry]:
        """Return all events, without a last line that is being written."""
        for line in self._new_lines():
            # What a killed worker wrote of its last event says nothing.
            with contextlib.suppress(ValueError):
                self._read.append(json.loads(line))
        return self._read.copy()

    def _new_lines(self) -> list[bytes]:
        """Return the whole lines that have been added since the last call."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as stream:
            stream.seek(self._end)
            added = stream.read()
        # In one read, cut at the last line end: a loop over the lines of a file that grows
        # yields the rest of a line that was a part a moment ago.
        whole = added[: added.rfind(b"\n") + 1]
        self._end += len(whole)
        return whole.splitlines()

    def results(self) -> list[Entry]:
        """Return the results so far, in the order in which the checks ended."""
        return [event["result"] for event in self.events() if "result" in event]

    def outcomes(self) -> dict[str, str]:
        """Return how the checks with a result ended, by their ids."""
        return {result["id"]: result["outcome"] for result in self.results()}

    def ended(self) -> set[str]:
        """Return the ids of the checks that need no worker any more."""
        ended = {result["id"] for result in self.results()}
        for event in self.events():
            for entry in event.get("excused", ()):
                ended.add(entry["id"])
        return ended

    def _latest(self) -> Iterator[Entry]:
        """Yield the events of its device, the last one first."""
        for event in reversed(self.events()):
            if event.get("on", 0) == self.index:
                yield event

    def latest(self) -> float:
        """Return when the last event was written: while it changes, the worker is not stuck."""
        return float(self.last("at") or 0.0)

    def last(self, key: str) -> Any:
        """Return the value of the last event with this key, or None."""
        for event in self._latest():
            if key in event:
                return event[key]
        return None

    def running(self) -> Running | None:
        """Return the check that has started and not ended, or None."""
        step = None
        for event in self._latest():
            if "result" in event or "excused" in event:
                return None
            if "start" in event:
                return Running(event["start"], time.time() - event["at"], step)
            step = step or event.get("step")
        return None
