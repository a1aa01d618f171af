"""Temporary folders, and what killed runs left of theirs."""

import contextlib
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

_BEING_LINKED = re.compile(r"\.current-\d+")
_BEING_WRITTEN = re.compile(
    r"\..+\.[a-z0-9_]{8}"
)  # by write_atomic, as mkstemp names it


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
    """Make a temporary folder, removed at the end of the block."""
    with TemporaryDirectory(
        prefix=".provision-", dir=parent, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)
