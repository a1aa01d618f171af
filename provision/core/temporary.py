"""Temporary folders, and what killed runs left of theirs."""

import contextlib
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

if sys.platform != "win32":
    import fcntl

_SCRATCH = ".provision-tmp-"  # prefix of the name of a temporary folder
_MADE = re.compile(re.escape(_SCRATCH) + "[a-z0-9_]{8}")  # as mkdtemp names it
_BEING_LINKED = re.compile(r"\.current-\d+")
# By write_atomic, as mkstemp names it.
_BEING_WRITTEN = re.compile(r"\..+\.(?:provision-)?[a-z0-9_]{8}")


def remove_litter(folder: Path) -> None:
    """Remove what killed runs left in a folder: links being swapped, files being written."""
    # Of files only those that are an hour old: some are written without the folder's lock.
    with contextlib.suppress(OSError):  # absent, or not ours to change
        for path in folder.glob(".*"):
            state = path.lstat()
            link = stat.S_ISLNK(state.st_mode) and _BEING_LINKED.fullmatch(path.name)
            file = stat.S_ISREG(state.st_mode) and _BEING_WRITTEN.fullmatch(path.name)
            if link or (file and abs(time.time() - state.st_mtime) > 3600):
                path.unlink()


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary folder, removed at the end of the block; what killed runs left goes first."""
    parent = parent or Path(gettempdir())
    for left in parent.glob(f"{_SCRATCH}*"):
        if _MADE.fullmatch(left.name):
            _remove_abandoned(left)
    with contextlib.ExitStack() as stack:
        folder = _held_folder(parent, stack)
        while not folder.is_dir():  # another run had taken it for abandoned
            folder = _held_folder(parent, stack)
        yield folder


def _held_folder(parent: Path, stack: contextlib.ExitStack) -> Path:
    """Make a folder that this process holds until its end, however that comes."""
    made = TemporaryDirectory(prefix=_SCRATCH, dir=parent, ignore_cleanup_errors=True)
    folder = Path(stack.enter_context(made))
    if sys.platform != "win32":
        # It is gone, or its file system has no locks.
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
    return folder


def _remove_abandoned(folder: Path) -> None:
    """Remove a temporary folder of this user that no process holds; nothing on Windows."""
    if sys.platform != "win32":  # where a folder cannot be held
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, handle)
            # Of one that is held this is a BlockingIOError.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_uid == os.geteuid():
                shutil.rmtree(folder, ignore_errors=True)
