"""Kernel caches in a user's home, and the time of the last driver change."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Caches below the home folder. Their kernels stay when the driver that compiled them is replaced.
_CACHES = (
    ".triton/cache",
    ".cache/neo_compiler_cache",
    ".cache/libsycl_cache",
    ".cache/torch/kernels",
    ".nv/ComputeCache",
    "AppData/Local/NEO/neo_compiler_cache",
    "AppData/Roaming/libsycl_cache",
)
_DRIVERS = (
    "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1",
    "usr/lib64/libze_intel_gpu.so.1",
    "usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "usr/lib64/libcuda.so.1",
)


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of compiled kernels, and when its oldest entry was written, in Unix time."""

    path: Path
    oldest: float


def read_caches(home: Path) -> list[Cache]:
    """Return the kernel caches of a user that are not empty."""
    found = []
    for name in _CACHES:
        times = _times(home / name)
        if times:
            found.append(Cache(home / name, min(times)))
    return found


def driver_changed(root: Path) -> float | None:
    """Return when the newest user-mode driver file was installed; None without one."""
    times = []
    for name in _DRIVERS:
        try:
            times.append((root / name).resolve().stat().st_ctime)
        except (OSError, RuntimeError):
            continue
    return max(times, default=None)


def _times(folder: Path) -> list[float]:
    try:
        with os.scandir(folder) as entries:
            return [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
    except OSError:
        return []
