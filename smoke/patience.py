"""How long a silent process may go on: one that computes is compiling, one that waits hangs.

Torch's wheels hold no code for some chips, such as desktop Arrow Lake, or an A380 with IPEX 2.1:
there each kernel is compiled at its first use, by the process that uses it, minutes in all
(cmake/BuildFlags.cmake of intel/torch-xpu-ops; intel/AI-Playground#4). A device that does not
answer leaves its process asleep, or in a loop that polls it: that one is ended, too, but later.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

LONGEST = 900.0  # seconds of silence, whatever the process does
BUSY = 0.1  # CPU seconds per second: a compiler on a busy machine; who waits takes a hundredth
TICK = 0.05  # seconds between two looks; short next to any check, cheap to do
_BEAT = 10.0  # seconds between two signs of life


class Patience:
    """The silence of one process, from its last sign of life on."""

    def __init__(self, process: subprocess.Popen[bytes], limit: float) -> None:
        self._process = process
        self._limit = limit
        self.restart()

    def restart(self) -> None:
        """Take note of a sign of life."""
        self._since = time.monotonic()
        self._used = cpu_seconds(self._process)

    @property
    def silent(self) -> float:
        """The seconds since the last sign of life."""
        return time.monotonic() - self._since

    @property
    def exhausted(self) -> bool:
        """Whether the process counts as hung."""
        silent = self.silent
        return silent > self._limit and (silent > LONGEST or not self._computed(silent))

    def _computed(self, seconds: float) -> bool:
        used = cpu_seconds(self._process)
        if used is None or self._used is None:
            return False
        return used - self._used > BUSY * seconds


def wait(
    process: subprocess.Popen[bytes], limit: float, alive: Callable[[], None]
) -> tuple[int | None, float]:
    """Wait for a process that reports nothing until it ends.

    Args:
        process: The process, started by this one.
        limit: Seconds that it may take without computing.
        alive: Called every few seconds, for whoever watches this process.

    Returns:
        Its exit status, None where it counts as hung; and for how long it ran.
    """
    patience, beaten = Patience(process, limit), 0.0
    while (code := process.poll()) is None and not patience.exhausted:
        if patience.silent - beaten > _BEAT:
            beaten = patience.silent
            alive()
        time.sleep(TICK)
    return code, patience.silent


def cpu_seconds(process: subprocess.Popen[bytes]) -> float | None:
    """Return the CPU time of a process and its ended children, None where it can't be read."""
    try:
        return _windows(process) if sys.platform == "win32" else _linux(process.pid)
    except (OSError, ValueError, IndexError):
        return None


def _linux(pid: int) -> float:
    if sys.platform == "win32":
        raise OSError
    # proc(5): utime, stime, cutime and cstime are fields 14 to 17; the name before may hold spaces.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    ticks = text.rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / float(os.sysconf("SC_CLK_TCK"))


def _windows(process: subprocess.Popen[bytes]) -> float:
    if sys.platform != "win32":
        raise OSError
    import ctypes

    times = [ctypes.c_ulonglong() for _ in range(4)]  # created, ended, kernel, user, in 100 ns
    # Wine 8 gives the times of the calling process instead, so there only the limit decides.
    handle = ctypes.c_void_p(int(vars(process)["_handle"]))
    if not ctypes.windll.kernel32.GetProcessTimes(handle, *map(ctypes.byref, times)):
        raise OSError
    return (times[2].value + times[3].value) / 1e7
