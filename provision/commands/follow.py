"""How far a run of the suite is, by the journal that its worker writes."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any


def area_of(identifier: str) -> str:
    """Return the area of a check: ``device`` of ``device.matmul``."""
    return identifier.partition(".")[0]


class Follower:
    """Reads what has been added to a journal, at each call; see smoke/engine/journal.py."""

    def __init__(self, journal: Path, *, by_area: bool = False) -> None:
        self._journal = journal
        self._by_area = by_area  # of a run that takes minutes
        self._results: list[dict[str, Any]] = []
        self._reported: set[str] = set()  # areas
        self._read = 0  # bytes
        # Several, where devices are checked at once.
        self._running: dict[str, None] = {}
        self._required: set[str] = set()
        self._ended: set[str] = set()

    def __call__(self) -> dict[str, Any]:
        """Return the progress as `provision.core.progress.Progress` takes it."""
        results: list[dict[str, Any]] = []
        for event in self._new_events():
            if "start" in event:
                self._running[event["start"]["id"]] = None
            ended = [*event.get("excused", ())]
            if "result" in event:
                results.append(event["result"])
                ended.append(event["result"])
            for check in ended:
                self._ended.add(check["id"])
                self._running.pop(check["id"], None)
            for check in event.get("required", ()):
                self._required.add(check["id"])
        self._results += results
        progress: dict[str, Any] = {
            "completed": len(self._ended),
            "total": 0,
            "now": next(reversed(self._running), ""),
            "ended": results,
        }
        if self._required:
            progress["total"] = len(self._required | self._ended)
        if self._by_area:
            progress["areas"] = self._ended_areas()
        return progress

    def _ended_areas(self) -> dict[str, list[dict[str, Any]]]:
        """Return the results of each area of which every check has ended since the last call."""
        skipped = {area_of(name) for name in self._required - self._ended}
        skipped |= self._reported
        areas = defaultdict[str, list[dict[str, Any]]](list)
        for result in self._results:
            area = area_of(result["id"])
            if area not in skipped:
                areas[area].append(result)
        self._reported.update(areas)
        return areas

    @property
    def running(self) -> str:
        """The checks that have started and not ended."""
        self()
        return ", ".join(self._running)

    def _new_events(self) -> list[dict[str, Any]]:
        try:
            with self._journal.open("rb") as stream:
                stream.seek(self._read)
                added = stream.read()
        except OSError:  # not written yet
            return []
        # The last line may be half written; a killed worker leaves one that is no JSON.
        whole = added[: added.rfind(b"\n") + 1]
        self._read += len(whole)
        events: list[dict[str, Any]] = []
        for line in whole.splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        return events
