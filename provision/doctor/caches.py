"""Kernel caches in a user's home, and the time of the last driver change."""

from __future__ import annotations

import os
from pathlib import Path

from provision.doctor.data import data


def read_caches(home: Path) -> dict[Path, float]:
    """Return the kernel caches of a user that are not empty: when the oldest entry was written."""
    folders = (home / name for name in data("packages")["caches"]["folders"])
    return {folder: min(times) for folder in folders if (times := _times(folder))}


def driver_changed(root: Path) -> float | None:
    """Return when the newest user-mode driver file was installed; None without one."""
    times = []
    for name in data("packages")["caches"]["drivers"]:
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
