"""The lock of a folder: one process at a time changes it, and the others wait."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from provision.core.errors import os_errors
from provision.core.progress import Progress

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Polled, because msvcrt.LK_LOCK gives up after ten attempts, one per second.
_POLL = 0.1  # seconds between two attempts to take the lock


@contextlib.contextmanager
def folder_lock(
    folder: Path, on_wait: Callable[[], None], name: str = ".lock"
) -> Iterator[int]:
    """Hold a lock in a folder, and yield its descriptor; the system releases it in any case."""
    # It is a lock on an open file: a file that exists would survive ``kill -9``. A child that
    # inherits it (``pass_fds``) holds the lock too, and may go on writing when this process is
    # killed (not on Windows).
    remedy = "check its owner and its rights, and that its file system has locks"
    with contextlib.ExitStack() as stack:
        with os_errors(f"cannot work in {folder}", remedy):
            handle = _taken(folder, name, on_wait, stack)
            while _is_removed(handle, folder / name):
                handle = _taken(folder, name, on_wait, stack)
        yield handle


def _taken(
    folder: Path, name: str, on_wait: Callable[[], None], stack: contextlib.ExitStack
) -> int:
    """Return the descriptor of a lock that this process has taken; ``stack`` closes it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
    # No LOCK_UN: it would also end the lock of a child that inherited it (flock(2)).
    stack.callback(os.close, handle)
    if not try_lock(handle):
        on_wait()
        # Not once more when it is taken: Windows refuses a lock to who has it.
        while not try_lock(handle):
            time.sleep(_POLL)
    return handle


def _is_removed(handle: int, path: Path) -> bool:
    """Whether the file of a lock was removed while this process waited for it."""
    found = os.fstat(handle)
    if found.st_nlink:
        return False
    try:  # some file systems count no links
        return not os.path.samestat(found, path.stat())
    except FileNotFoundError:
        return True


def waiting(what: str | Path, progress: Progress) -> Callable[[], None]:
    """Return what says that a command waits for the lock of a target, image or folder."""
    return lambda: progress.step(
        f"another command is working on {what}; waiting for it to end"
    )


def try_lock(handle: int) -> bool:
    """Take the lock of an open file, and return whether nobody else holds it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Held by another process: flock fails with EAGAIN, msvcrt with EACCES or EDEADLK.
        if error.errno in {errno.EACCES, errno.EAGAIN, errno.EDEADLK}:
            return False
        raise
    return True
