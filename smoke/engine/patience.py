"""How long a silent process may go on: one that computes is compiling, one that waits hangs.

Torch's wheels hold no code for some chips, such as desktop Arrow Lake, or an A380 with IPEX 2.1:
there each kernel is compiled at its first use, by the process that uses it, minutes in all
(cmake/BuildFlags.cmake of intel/torch-xpu-ops; intel/AI-Playground#4). A device that does not
answer leaves its process asleep, or in a loop that polls it: that one is ended, too, but later.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LONGEST = 900.0  # seconds of silence, whatever the process does
BUSY = 0.1  # CPU seconds per second: a compiler on a busy machine; who waits takes a hundredth
TICK = 0.05  # seconds between two looks; short next to any check, cheap to do


def wait(
    process: subprocess.Popen[bytes], limit: float, heard: Callable[[], bool]
) -> tuple[int | None, float]:
    """Wait for a process until it ends, or counts as hung.

    Args:
        process: The process, started by this one.
        limit: Seconds of silence that it may take without computing.
        heard: Called at each look; returns whether the process gave a sign of life.

    Returns:
        Its exit status, None where it counts as hung; and for how long it was silent.
    """
    since, used = time.monotonic(), cpu_seconds(process)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(TICK), time.monotonic() - since
        silent = time.monotonic() - since
        if heard():
            since, used = time.monotonic(), cpu_seconds(process)
        elif silent > limit and not _computes(process, used, silent):
            return None, silent


def _computes(
    process: subprocess.Popen[bytes], used: float | None, silent: float
) -> bool:
    """Return whether a silent process computes, and not for too long."""
    now = cpu_seconds(process)
    if silent > LONGEST or now is None or used is None:
        return False
    return now - used > BUSY * silent


def cpu_seconds(process: subprocess.Popen[bytes]) -> float | None:
    """Return the CPU time of a process and its ended children, None where it can't be read."""
    try:
        if sys.platform == "win32":
            import ctypes

            # In units of 100 ns: created, ended, kernel, user.
            times = [ctypes.c_ulonglong() for _ in range(4)]
            # Wine 8 gives the times of the calling process, so there only the limit decides.
            handle = ctypes.c_void_p(int(vars(process)["_handle"]))
            kernel = ctypes.windll.kernel32
            if not kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
                return None
            return (times[2].value + times[3].value) / 1e7
        # proc(5): utime, stime, cutime and cstime are fields 14 to 17; the name may hold spaces.
        text = Path(f"/proc/{process.pid}/stat").read_text(
            encoding="utf-8", errors="replace"
        )
        ticks = text.rpartition(")")[2].split()[11:15]
        return sum(map(int, ticks)) / float(os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None
