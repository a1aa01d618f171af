"""Temporary folders, and what killed runs left of theirs."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.locking import try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRATCH = ".provision-scratch-"
_BEING_LINKED = re.compile(r"\.current-\d+")
_BEING_WRITTEN = re.compile(r"\..+\.[a-z0-9_]{8}")  # by write_atomic, as mkstemp names it


def remove_litter(folder: Path) -> None:
    """Remove what killed runs left in a folder: links being swapped, files being written.

    Of files only those that are an hour old: some are written without the folder's lock.
    """
    with contextlib.suppress(OSError):  # absent, or not ours to change
        for path in folder.glob(".*"):
            state = path.lstat()
            link = stat.S_ISLNK(state.st_mode) and _BEING_LINKED.fullmatch(path.name)
            file = stat.S_ISREG(state.st_mode) and _BEING_WRITTEN.fullmatch(path.name)
            if link or (file and abs(time.time() - state.st_mtime) > 3600):
                path.unlink()


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, removed at the end of the block, and remove those of killed runs.

    A lock on the folder tells whether its maker lives. Windows locks no folder, and keeps them.
    """
    root = parent or Path(tempfile.gettempdir())
    with (
        tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=root, ignore_cleanup_errors=True) as made,
        contextlib.ExitStack() as stack,
    ):
        if sys.platform != "win32":
            with contextlib.suppress(OSError):  # no locks: then it is not told from a dead one's
                _lock(Path(made), stack)
            for left in root.glob(f"{_SCRATCH}*"):
                with contextlib.suppress(OSError), contextlib.ExitStack() as dead:
                    state = left.lstat()
                    # Not in its first minute, in which its maker may not have locked it yet.
                    young = abs(time.time() - state.st_mtime) < 60
                    if state.st_uid == os.geteuid() and not young and _lock(left, dead):
                        shutil.rmtree(left, ignore_errors=True)
        yield Path(made)


def _lock(folder: Path, stack: contextlib.ExitStack) -> bool:
    handle = os.open(folder, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    stack.callback(os.close, handle)
    return try_lock(handle)
