"""Wheelhouses: folders of artifacts, which are used only if their SHA-256 is in the lock."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Protocol, TypeVar

from provision.core.hashing import sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

# Installed bytes per byte of an artifact that is not at hand; measured on the wheels of cpu-linux.
_UNPACKED = 3.3


class NamedArtifact(Protocol):
    """A wheel, a conda package, or another file that a lock names."""

    @property
    def filename(self) -> str:
        """Name of the file."""

    @property
    def sha256(self) -> str:
        """Hexadecimal."""

    @property
    def size(self) -> int | None:
        """Bytes; None where the lock has no size."""


ItemT = TypeVar("ItemT", bound=NamedArtifact)


def find_artifacts(artifacts: Iterable[ItemT], folders: Sequence[Path]) -> dict[ItemT, Path]:
    """Return the file of each artifact that a folder holds, by name and, where known, size.

    Hashes are not compared here: the installer does that while it unpacks, and a gigabyte should
    not be read twice. If it fails, :func:`damaged_artifacts` finds the file at fault.
    """
    found = {}
    for artifact in artifacts:
        for folder in folders:
            path = folder / artifact.filename
            if path.is_file() and artifact.size in {None, path.stat().st_size}:
                found[artifact] = path
                break
    return found


def damaged_artifacts(found: Mapping[ItemT, Path]) -> list[Path]:
    """Return the files whose SHA-256 is not the lock's."""
    return [path for item, path in found.items() if sha256_file(path) != item.sha256]


def size_on_disk(artifacts: Iterable[ItemT], found: Mapping[ItemT, Path]) -> int:
    """Return the approximate size of some artifacts once they are installed, in bytes."""
    return sum(
        _unpacked(found[a]) if a in found else int((a.size or 0) * _UNPACKED) for a in artifacts
    )


def _unpacked(path: Path) -> int:
    if path.suffix != ".whl":
        return int(path.stat().st_size * _UNPACKED)
    try:
        # A wheel's table of contents has the exact sizes; a conda package has to be decompressed.
        with zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return 0  # the installer reports the damage
