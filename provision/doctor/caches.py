"""Kernel caches in a user's home that are older than the driver."""

import contextlib
import os
from pathlib import Path

from provision.doctor.data import data


def stale_caches(home: Path, root: Path) -> tuple[Path, ...]:
    """Return the caches with entries from before the newest user-mode driver was installed."""
    table, changed, stale = data("packages")["caches"], 0.0, []
    for driver in table["drivers"]:
        with contextlib.suppress(OSError):
            changed = max(changed, (root / driver).stat().st_ctime)
    for folder in table["folders"]:
        with contextlib.suppress(OSError), os.scandir(home / folder) as entries:
            if any(entry.stat(follow_symlinks=False).st_mtime < changed for entry in entries):
                stale.append(home / folder)
    return tuple(stale)
