"""Folders of artifacts: what is in them counts by its sha256, wherever it came from."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Protocol, TypeVar

from provision.core.hashing import sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
# Bytes on disk per byte of an artifact that cannot be asked; measured on cpu-linux's wheels.
_UNPACKED = 3.3


class NamedArtifact(Protocol):
    """What is looked for: a wheel, a conda package, or anything else that has these."""

    @property
    def filename(self) -> str:
        """Its name in a folder."""

    @property
    def sha256(self) -> str:
        """Hexadecimal."""

    @property
    def size(self) -> int | None:
        """Bytes; None where that is not known."""


ItemT = TypeVar("ItemT", bound=NamedArtifact)


def find_artifacts(artifacts: Iterable[ItemT], folders: Sequence[Path]) -> dict[ItemT, Path]:
    """Return which artifacts lie in which file, by name and, where it is known, size.

    The hash is not looked at here: the installer does that while it unpacks, so that a gigabyte
    is not read twice; :func:`damaged_folders` tells afterwards which file was at fault.
    """
    found = {}
    for artifact in artifacts:
        for folder in folders:
            path = folder / artifact.filename
            if path.is_file() and artifact.size in {None, path.stat().st_size}:
                found[artifact] = path
                break
    return found


def damaged_folders(found: Mapping[ItemT, Path]) -> list[Path]:
    """Return the files that are not what the lock names, by sha256."""
    return [path for item, path in found.items() if sha256_file(path) != item.sha256]


def size_on_disk(artifacts: Iterable[ItemT], found: Mapping[ItemT, Path]) -> int:
    """Return about how many bytes some artifacts take once they are installed."""
    return sum(
        _unpacked(found[a]) if a in found else int((a.size or 0) * _UNPACKED) for a in artifacts
    )


def _unpacked(path: Path) -> int:
    if path.suffix != ".whl":
        return int(path.stat().st_size * _UNPACKED)
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except (OSError, zipfile.BadZipFile):
        return 0  # the installer will say what is wrong with it
