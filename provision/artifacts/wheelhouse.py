"""Wheelhouses: artifacts found by their exact names, and used only if the lock has their SHA-256."""

import functools
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from provision.core.hashing import sha256_file
from provision.core.interruption import in_threads
from provision.lockfile.pip import Artifact

# Honest wheels unpack to less than this many times their size; one of zeros to a thousand times.
_MOST_UNPACKED = 20
# Installed bytes per byte of an artifact that is not at hand; measured on the wheels of cpu-linux.
_UNPACKED = 3.3


@dataclass(frozen=True, slots=True)
class WantedFile:
    """One file that is needed."""

    filename: str
    sha256: str  # hexadecimal
    size: int | None  # bytes; None where the lock has none
    # Its own URL, or that of its simple index; None for the default index.
    source: str | None
    # The name on that index; None where ``source`` is the file's own URL.
    project: str | None


ItemT = TypeVar("ItemT", bound=Artifact | WantedFile)


def find_artifacts(
    artifacts: Iterable[ItemT], folders: Sequence[Path]
) -> dict[ItemT, Path]:
    """Return the file of each artifact that a folder holds, by name and, where known, size."""
    # Hashes are not compared here, because a plan needs none; :func:`damaged_artifacts` does that.
    files = {}
    for item in artifacts:
        for folder in folders:
            path = folder / item.filename
            if path.is_file() and item.size in {None, path.stat().st_size}:
                files[item] = path
                break  # an earlier folder hides a later one
    return files


def damaged_artifacts(found: Iterable[tuple[ItemT, Path]]) -> dict[Path, str]:
    """Return the files whose SHA-256 is not the lock's, each with what it is."""

    def digest(pair: tuple[ItemT, Path]) -> tuple[ItemT, Path, str]:
        return *pair, sha256_file(pair[1])

    # hashlib lets other threads run while it hashes.
    hashed = in_threads(digest, found)
    return {path: sha256 for item, path, sha256 in hashed if sha256 != item.sha256}


def may_unpack(item: Artifact | WantedFile, path: Path) -> bool:
    """Whether an installer may open a file and compare its hash only then.

    It has the locked size, and its table of contents, which uv holds it to, states no bomb.
    """
    size = path.stat().st_size
    return size == item.size and 0 < size_on_disk(item, path) <= size * _MOST_UNPACKED


def size_on_disk(item: Artifact | WantedFile, path: Path | None) -> int:
    """Return the approximate bytes of an artifact once it is installed; None if not at hand."""
    if path is None:
        return int((item.size or 0) * _UNPACKED)
    state = path.stat()
    if path.suffix != ".whl":
        return int(state.st_size * _UNPACKED)
    return _unpacked_size(path, state.st_mtime_ns)


@functools.cache
def _unpacked_size(wheel: Path, _changed: int) -> int:
    """Return the bytes of a wheel's files, read once for each state of it; 0 of a damaged one."""
    try:
        # Its table of contents has the exact sizes; a conda package has to be decompressed.
        with zipfile.ZipFile(wheel) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return 0  # the installer reports the damage
