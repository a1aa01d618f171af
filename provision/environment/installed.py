"""What is installed: distributions and their RECORDs, read from disk without running anything."""

from __future__ import annotations

import base64
import binascii
import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class RecordEntry(NamedTuple):
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
class InstalledDistribution:
    """One distribution as its ``.dist-info`` folder tells it.

    Attributes:
        name: Normalised; empty where the metadata cannot be read.
        version: As written in the metadata.
        folder: The ``.dist-info`` folder.
    """

    name: str
    version: str
    folder: Path

    def files(self) -> list[RecordEntry] | None:
        """Return the lines of its RECORD, or None where it has no readable one."""
        try:
            with (self.folder / "RECORD").open(encoding="utf-8", newline="") as stream:
                return [RecordEntry(*(*row, "", "")[:3]) for row in csv.reader(stream) if row]
        except (OSError, UnicodeDecodeError, csv.Error):
            return None

    @property
    def installer(self) -> str:
        """The tool that says it installed this."""
        try:
            text = (self.folder / "INSTALLER").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            text = ""
        return text or "an unknown tool"

    def requires(self) -> list[str]:
        """Return its Requires-Dist lines."""
        return [value for key, value in _headers(self.folder) if key == "Requires-Dist"]


def _headers(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the header fields of a METADATA file; none if it cannot be read."""
    try:
        with (folder / "METADATA").open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    return  # the description follows, and may be long
                key, _, value = line.partition(":")
                yield key, value.strip()
    except OSError:
        return


def name_of(requirement: str) -> str:
    """Return the distribution that a requirement asks for, normalised; empty if it is none."""
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - not needed to list folders

    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return str(canonicalize_name(match[0])) if match else ""


def site_packages(prefix: Path) -> Path | None:
    """Return the site-packages folder of an environment of either platform, or None."""
    windows = prefix / "Lib" / "site-packages"
    if windows.is_dir():
        return windows
    return next(iter(sorted(prefix.glob("lib/python3.*/site-packages"))), None)


def installed_distributions(site: Path) -> list[InstalledDistribution]:
    """Return every distribution that has a ``.dist-info`` folder, sorted by name."""
    return sorted(map(_installed, site.glob("*.dist-info")), key=lambda d: (d.name, d.folder.name))


def dist_info_names(site: Path) -> set[str]:
    """Return the names of the ``.dist-info`` folders: one directory listing, no file read."""
    return {path.name for path in site.glob("*.dist-info")}


def _installed(folder: Path) -> InstalledDistribution:
    fields: dict[str, str] = {}
    for key, value in _headers(folder):
        fields.setdefault(key, value)
        if {"Name", "Version"} <= fields.keys():
            break
    return InstalledDistribution(name_of(fields.get("Name", "")), fields.get("Version", ""), folder)
