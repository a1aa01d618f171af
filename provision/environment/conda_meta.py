"""What the conda layer installed: the files that ``conda-meta/*.json`` names, with their hashes."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provision.core.errors import SpecError
from provision.environment.installed import RecordEntry

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FOLDER = "conda-meta"


@dataclass(frozen=True, slots=True)
class InstalledCondaPackage:
    """One conda package as its file in ``conda-meta`` tells it.

    Attributes:
        name: Package.
        version: As the channel writes it.
        sha256: Of the archive that it came from.
        folder: Its file in ``conda-meta``.
        lines: Its files, relative to site-packages like those of a wheel's RECORD.
        shipped: Path -> sha256 of the file as the archive holds it, which is the same on every
            machine, unlike that of a file into which the prefix was written; "" for what no
            archive holds, such as the command of an entry point.
    """

    name: str
    version: str
    sha256: str
    folder: Path
    lines: list[RecordEntry]
    shipped: dict[str, str]

    def files(self) -> list[RecordEntry]:
        """Return its files."""
        return self.lines


def installed_conda_packages(prefix: Path, site: Path) -> list[InstalledCondaPackage]:
    """Return every package of a prefix's conda layer; none where it has no such layer.

    Raises:
        SpecError: A file in ``conda-meta`` is not one that an installer writes.
    """
    return [_package(path, prefix, site) for path in sorted((prefix / FOLDER).glob("*.json"))]


def _package(path: Path, prefix: Path, site: Path) -> InstalledCondaPackage:
    try:
        told = json.loads(path.read_bytes())
        entries = told["paths_data"]["paths"]
        inside = site.relative_to(prefix).as_posix()
        places = [_relative(entry["_path"], inside) for entry in entries]
        pairs = list(zip(places, entries, strict=True))
        return InstalledCondaPackage(
            name=told["name"],
            version=told["version"],
            sha256=told.get("sha256", ""),
            folder=path,
            lines=[_recorded(place, entry) for place, entry in pairs],
            shipped={
                place: entry.get("sha256", "") if entry["path_type"] == "hardlink" else ""
                for place, entry in pairs
            },
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecError(
            f"cannot read {path}",
            evidence=repr(error),
            cause="it was edited, or its installation was cut short",
            remedy="build again",
        ) from error


def _relative(path: str, site: str) -> str:
    """Return a path of a prefix relative to its site-packages; both are relative to the prefix."""
    up = ""
    while site and not path.startswith(f"{site}/"):
        site, up = site.rpartition("/")[0], f"../{up}"
    return up + path[len(site) + 1 if site else 0 :]


def _recorded(place: str, entry: dict[str, Any]) -> RecordEntry:
    if entry["path_type"] in {"softlink", "directory"}:
        return RecordEntry(place, "", "")  # it has to be there; what it leads to is recorded itself
    digest = entry.get("sha256_in_prefix") or entry.get("sha256") or ""
    # Writing the prefix into a file changes its size, which is told as it was before.
    length = "" if entry.get("prefix_placeholder") else str(entry.get("size_in_bytes", ""))
    return RecordEntry(place, _hash(digest), length)


def _hash(digest: str) -> str:
    encoded = base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
    return f"sha256={encoded}" if digest else ""


def conda_dist_infos(brought: Iterable[InstalledCondaPackage]) -> set[str]:
    """Return the names of the ``.dist-info`` folders that conda packages brought."""
    places = (line.path.split("/") for package in brought for line in package.lines)
    return {parts[0] for parts in places if len(parts) == 2 and parts[0].endswith(".dist-info")}
