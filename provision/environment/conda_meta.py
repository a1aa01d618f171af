"""Installed conda packages: the files that ``conda-meta/*.json`` lists, with their hashes."""

import json
import posixpath
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from provision.core.errors import damage_in
from provision.core.limits import read_parsed
from provision.lockfile.wheel_record import RecordEntry, encoded

FOLDER = "conda-meta"


class InstalledCondaPackage(NamedTuple):
    """One conda package, from its file in ``conda-meta``."""

    name: str
    version: str  # in the form of the channel
    sha256: str  # of the archive that was installed
    folder: Path  # its file in conda-meta
    # Relative to site-packages like those of a wheel's RECORD.
    entries: list[RecordEntry]
    # SHA-256 in the archive by path, the same on every machine, unlike that of a file into which
    # the prefix was written; "" of what is in no archive, such as the command of an entry point.
    shipped: dict[str, str]


def installed_conda_packages(prefix: Path, site: Path) -> list[InstalledCondaPackage]:
    """Return every package of a prefix's conda layer, if any; SpecError if a file is damaged."""
    inside = f"/{site.relative_to(prefix).as_posix()}"
    files = sorted((prefix / FOLDER).glob("*.json"))
    return [_package(file, inside) for file in files]


def _package(file: Path, site: str) -> InstalledCondaPackage:
    remedy = "build again: it was edited, or the installation was interrupted"
    with damage_in(file, remedy):
        data = read_parsed(file, json.loads)
        entries = []
        shipped = {}
        for entry in data["paths_data"]["paths"]:
            path = posixpath.relpath(f"/{entry['_path']}", site)
            entries.append(_recorded(path, entry))
            shipped[path] = ""
            if entry["path_type"] == "hardlink":
                shipped[path] = entry.get("sha256", "")
        return InstalledCondaPackage(
            name=data["name"],
            version=data["version"],
            sha256=data.get("sha256", ""),
            folder=file,
            entries=entries,
            shipped=shipped,
        )


def _recorded(path: str, entry: dict[str, Any]) -> RecordEntry:
    if entry["path_type"] in {"softlink", "directory"}:
        # It has to exist; the target of a link has its own entry.
        return RecordEntry(path, "", "")
    # Installers that write the prefix into a file record both hashes; the one on disk counts here.
    digest = entry.get("sha256_in_prefix") or entry.get("sha256")
    hash_ = encoded(bytes.fromhex(digest)) if digest else ""
    # The recorded size is that of the archive; writing the prefix into a file changes it.
    length = ""
    if not entry.get("prefix_placeholder"):
        length = str(entry.get("size_in_bytes", ""))
    return RecordEntry(path, hash_, length)


def conda_dist_infos(packages: Iterable[InstalledCondaPackage]) -> set[str]:
    """Return the names of the ``.dist-info`` folders that conda packages installed."""
    names = set()
    for package in packages:
        for entry in package.entries:
            # Two parts, folder and file: only those that are directly in site-packages.
            parts = entry.path.split("/")
            if len(parts) == 2 and parts[0].endswith(".dist-info"):
                names.add(parts[0])
    return names
