"""How many devices are checked at the same time, and how one is checked beside the others."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
MOST = 8  # devices of one machine
# Bytes of the host that a worker may need: torch's libraries and a context.
MEMORY = 2 * 2**30
ROOT = Path("/")
# What is left to a container, by version 2 and 1 of the kernel's control groups: limit and use.
_GROUPS = {
    "memory.max": "memory.current",
    "memory/memory.limit_in_bytes": "memory/memory.usage_in_bytes",
}


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def at_once(root: Path = ROOT) -> int:
    """Return how many devices may be checked at once: fewer where cores or memory are few.

    A container that takes more than its memory is killed, and its device would be named for it. On
    Windows it is one: two processes cannot append to one journal there.
    """
    if sys.platform == "win32":
        return 1
    return max(1, min(MOST, cores(), _free_memory(root) // MEMORY))


def _free_memory(root: Path) -> int:
    """Return the bytes of memory that this process may still take; of other systems all of it."""
    left = [MOST * MEMORY]
    with contextlib.suppress(OSError, ValueError, LookupError):
        text = (root / "proc/meminfo").read_text(encoding="ascii")
        available = text.partition("MemAvailable:")[2]
        left.append(int(available.split()[0]) * 1024)
    group = root / "sys/fs/cgroup"
    for limit, used in _GROUPS.items():
        # Without a limit the first one has the word `max`.
        with contextlib.suppress(OSError, ValueError):
            left.append(_number(group / limit) - _number(group / used))
    return min(left)


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))


def begin(work: Callable[[], Result]) -> Future[Result]:
    """Do work in a thread that ends with this process, unlike those of a pool."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised by who asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
