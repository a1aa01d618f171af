"""The worker processes of one device, one after the other until its checks have ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from smoke.engine import child_process, lifetime, patience, report
from smoke.engine.journal import Entry, Journal

# Exit codes of pytest: all passed, some failed, no check left. The last alone is no error: a
# worker that died can have had the last one. What is required and was not run is looked up afterwards.
ENDED_WELL = (0, 1, 5, lifetime.DEVICE_LOST)


class Workers:
    """Starts the workers of a device, and another one where one died, hung or lost the device."""

    def __init__(self, program: Path, asked: Entry, log: Path, limit: float) -> None:
        """Take what the worker is asked for; see `worker.main`.

        Args:
            program: The worker.
            asked: What it is asked for, with the number of its device.
            log: Where its output goes.
            limit: Seconds of silence until a check counts as hung.
        """
        self._argv = [sys.executable, "-I", "-u", str(program), json.dumps(asked)]
        self._journal = Journal(Path(asked["journal"]), asked["other"])
        self._log = log
        self._limit = limit
        self._latest = 0.0

    def to_the_end(self) -> str:
        """Start workers until one has finished; return why the suite broke, "" if it did not."""
        while True:
            code, silent = self._one()
            running = self._journal.running()
            if running is None:
                if code == lifetime.DEVICE_LOST and not self._has_ended():
                    continue
                return self._broken(code)
            if code is None:
                finding = child_process.hung(silent, step=running.step)
            else:
                finding = child_process.died(code, self._output(), step=running.step)
            self._journal.write(result=report.failed(running, finding))
            if self._has_ended():  # another worker would load torch for nothing
                return ""

    def _has_ended(self) -> bool:
        """Return whether a worker has named the checks of this run, and all of them have ended."""
        required = {head["id"] for head in self._journal.last("required") or ()}
        return bool(required) and required <= self._journal.ended()

    def _one(self) -> tuple[int | None, float]:
        """Run one worker; return what `patience.wait` returns of it."""
        with self._log.open("wb") as output:
            child = child_process.start(self._argv, output, leader=True)
            try:
                return patience.wait(child, self._limit, self._has_written)
            finally:
                child_process.stop_group(child)

    def _has_written(self) -> bool:
        """Return whether the worker has: a slow check that journals its steps is not hung."""
        before = self._latest
        self._latest = self._journal.latest()
        return before != self._latest

    def _broken(self, code: int | None) -> str:
        if reason := self._journal.last("broken"):
            return str(reason)
        if code not in ENDED_WELL:
            return f"the worker ended with {code}:\n{self._output()[-800:]}"
        return "" if self._journal.results() else "no check was run"

    def _output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")
