"""What else the machine did during a run: load, stolen time and pressure, as Linux counts them.

Steal is time in which a virtual machine was ready to run and its host ran something else
(proc_pid_stat(5)). Pressure is the part of the time in which some task waited for a
resource (https://docs.kernel.org/accounting/psi.html). Where the system counts neither,
the entry is absent: not known, which is not the same as none.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

PROC = Path("/proc")
RESOURCES = ("cpu", "memory", "io")
STEAL = 8  # column of the line `cpu` of /proc/stat, its name counted
LAST_OF_THE_SUM = 9  # guest times behind it are part of user and nice


def per_processor() -> float:
    """Return the load average of a minute per processor, 0 where the system counts none."""
    if sys.platform == "win32":
        return 0.0
    return os.getloadavg()[0] / (os.cpu_count() or 1)


class MachineLoad:
    """Counters of the machine at the start of a run, compared with those at its end."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._started = time.monotonic()
        self._cpu = self._cpu_ticks()
        self._stalled = self._stalled_seconds()

    def since_start(self) -> dict[str, float]:
        """Return the load average, and parts of the time from 0 to 1, rounded."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        parts = {}
        if hasattr(os, "getloadavg"):
            parts["load average"] = round(os.getloadavg()[0], 2)
        stolen_before, before = self._cpu
        stolen, now = self._cpu_ticks()
        if now > before:
            ratio = (stolen - stolen_before) / (now - before)
            parts["steal"] = round(ratio, 4)
        for resource, stalled in self._stalled_seconds().items():
            waited = stalled - self._stalled.get(resource, stalled)
            parts[f"{resource} pressure"] = round(min(waited / seconds, 1.0), 4)
        return parts

    def _cpu_ticks(self) -> tuple[int, int]:
        """Return the stolen ticks and all ticks of all processors, zeros if unknown."""
        try:
            text = (self._proc / "stat").read_text(encoding="ascii")
            fields = text.splitlines()[0].split()
            ticks = [int(field) for field in fields[1:LAST_OF_THE_SUM]]
            return ticks[STEAL - 1], sum(ticks)
        except (OSError, ValueError, IndexError):
            return 0, 0

    def _stalled_seconds(self) -> dict[str, float]:
        """Return the seconds in which some task waited, by resource."""
        stalled = {}
        for resource in RESOURCES:
            try:
                text = (self._proc / "pressure" / resource).read_text(encoding="ascii")
                some = text.splitlines()[0]
                stalled[resource] = int(some.rpartition("total=")[2]) / 1e6
            except (OSError, ValueError, IndexError):  # a kernel without PSI
                continue
        return stalled
