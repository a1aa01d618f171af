"""What is installed: distributions and their RECORDs, read from disk without running anything."""

from __future__ import annotations

import base64
import binascii
import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_UNNAMED = ""


class Recorded(NamedTuple):
    """One line of a RECORD; an environment has some 20,000, so it is a tuple, decoded when asked.

    Attributes:
        path: Relative to site-packages, with forward slashes.
        hash: Such as ``sha256=bD8…``; empty where the RECORD gives none (of itself, for instance).
        length: Bytes in decimal; empty where the RECORD gives none.
    """

    path: str
    hash: str
    length: str

    @property
    def size(self) -> int | None:
        """Bytes; None where the RECORD gives none."""
        return int(self.length) if self.length.isdigit() else None

    @property
    def sha256(self) -> str | None:
        """Hexadecimal; None where the RECORD gives none, or another kind."""
        algorithm, _, value = self.hash.partition("=")
        if algorithm != "sha256":
            return None
        try:  # RECORD leaves base64's padding out, says the packaging specification
            return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
        except (binascii.Error, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Installed:
    """One distribution as its ``.dist-info`` folder tells it.

    Attributes:
        name: Normalised; empty where the metadata cannot be read.
        version: As written in the metadata.
        folder: The ``.dist-info`` folder.
    """

    name: str
    version: str
    folder: Path

    def files(self) -> list[Recorded] | None:
        """Return the lines of its RECORD, or None where it has no readable one."""
        try:
            with (self.folder / "RECORD").open(encoding="utf-8", newline="") as stream:
                return [Recorded(*(*row, "", "")[:3]) for row in csv.reader(stream) if row]
        except (OSError, UnicodeDecodeError, csv.Error):
            return None


def site_packages(prefix: Path) -> Path | None:
    """Return the site-packages folder of an environment of either platform, or None."""
    windows = prefix / "Lib" / "site-packages"
    if windows.is_dir():
        return windows
    return next(iter(sorted(prefix.glob("lib/python3.*/site-packages"))), None)


def distributions(site: Path) -> list[Installed]:
    """Return every distribution that has a ``.dist-info`` folder, sorted by name."""
    return sorted(map(_installed, site.glob("*.dist-info")), key=lambda d: (d.name, d.folder.name))


def dist_info_names(site: Path) -> set[str]:
    """Return the names of the ``.dist-info`` folders: one directory listing, no file read."""
    return {path.name for path in site.glob("*.dist-info")}


def _installed(folder: Path) -> Installed:
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - not needed to list folders

    fields = {"Name": _UNNAMED, "Version": _UNNAMED}
    try:
        with (folder / "METADATA").open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    break  # the description follows, and may be long
                key, _, value = line.partition(":")
                if key in fields and not fields[key]:
                    fields[key] = value.strip()
    except OSError:
        pass
    return Installed(str(canonicalize_name(fields["Name"])), fields["Version"], folder)
