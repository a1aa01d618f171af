"""How long a silent process may go on: one that computes is compiling, one that waits hangs.

Torch's wheels hold no code for some chips, such as desktop Arrow Lake, or an A380 with IPEX 2.1:
there each kernel is compiled at its first use, by the process that uses it, minutes in all
(cmake/BuildFlags.cmake of intel/torch-xpu-ops; intel/AI-Playground#4). A device that does not
answer leaves its process asleep, or in a loop that polls it: that one is ended, too, but later.
A process that waits for a processor, beside other programs, computes as soon as it gets one.
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
BUSY = 0.1  # seconds of work per second; who waits for a device takes a hundredth
SURE = 20  # looks in a row at which a process does not compute
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
    since, used = time.monotonic(), work_seconds(process)
    idle = 0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(TICK), time.monotonic() - since
        silent = time.monotonic() - since
        if heard():
            since, used = time.monotonic(), work_seconds(process)
        elif silent > limit and not _computes(process, used, silent):
            idle += 1  # at a single look, a program that starts may wait for a file
            if idle >= SURE:
                return None, silent
        else:
            idle = 0


def _computes(
    process: subprocess.Popen[bytes], used: float | None, silent: float
) -> bool:
    """Return whether a silent process computes, and not for too long."""
    if silent > LONGEST:
        return False
    now = work_seconds(process)
    if now is None or used is None:
        return False
    return now - used > BUSY * silent or is_ready(process)


def is_ready(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a thread of a process or its children has a processor or waits for one."""
    # The kernel adds a wait for a processor to the sum once it is over, which can take long.
    return any("R" in _states(pid) for pid in _family(process.pid))


def work_seconds(process: subprocess.Popen[bytes]) -> float | None:
    """Return how long a process has computed, None where it can't be read.

    On Linux with its children, and with the time in which they waited for a processor.
    """
    try:
        if sys.platform == "win32":
            return _cpu_seconds_on_windows(process)
        _, *children = _family(process.pid)
        work = 0.0
        # A child before its parent, who gets the times of a child that ends meanwhile.
        for child in reversed(children):
            with contextlib.suppress(OSError):
                work += _work_of(child)
        return work + _work_of(process.pid)
    except (OSError, ValueError, IndexError):
        return None


if sys.platform == "win32":

    def _cpu_seconds_on_windows(process: subprocess.Popen[bytes]) -> float | None:
        import ctypes

        # In units of 100 ns: created, ended, kernel, user.
        times = [ctypes.c_ulonglong() for _ in range(4)]
        # Wine 8 gives the times of the calling process, so there only the limit decides.
        handle = ctypes.c_void_p(int(vars(process)["_handle"]))
        kernel = ctypes.windll.kernel32
        if not kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
            return None
        return (times[2].value + times[3].value) / 1e7


def _family(pid: int) -> list[int]:
    """Return a process and those that it started and that still run, theirs among them."""
    family = [pid]
    for member in family:
        # Without CONFIG_PROC_CHILDREN there is no such file.
        for text in _of_threads(member, "children"):
            family += map(int, text.split())
    return family


def _work_of(pid: int) -> float:
    if sys.platform == "win32":  # which has no /proc
        return 0.0
    # proc(5): utime, stime, cutime and cstime are fields 14 to 17; the name may hold spaces.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    ticks = text.rpartition(")")[2].split()[11:15]
    work = sum(map(int, ticks)) / float(os.sysconf("SC_CLK_TCK"))
    for text in _of_threads(pid, "schedstat"):
        # Of each thread: ns on a processor, ns ready to run without one
        # (https://docs.kernel.org/scheduler/sched-stats.html).
        with contextlib.suppress(ValueError, IndexError):
            work += int(text.split()[1]) / 1e9
    return work


def _states(pid: int) -> set[str]:
    """Return the states of a process's threads: field 3 of proc(5)."""
    return {text.rpartition(")")[2].split()[0] for text in _of_threads(pid, "stat")}


def _of_threads(pid: int, name: str) -> list[str]:
    """Return what procfs tells of the threads of a process, nothing of those that have ended."""
    texts = []
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/task").glob(f"*/{name}"):
            with contextlib.suppress(OSError):
                texts.append(file.read_text(encoding="utf-8", errors="replace"))
    return texts
