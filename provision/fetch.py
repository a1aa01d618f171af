"""Bring artifacts into a folder by their hashes: from wheelhouses, else from where the lock says.

Whatever lies in the folder afterwards is what the lock names: a file gets its final name only when
its sha256 is right. A download that was cut short goes on where it stopped.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision import web, wheelhouse
from provision.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from requests import Session

    from provision.condalock import Package
    from provision.lockfile import Artifact
    from provision.progress import Progress

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file to have.

    Attributes:
        filename: Its name in the folder.
        sha256: Hexadecimal.
        size: Bytes; None where the lock does not tell.
        source: Its own URL, or that of the simple index (PEP 503, 691) that has it; None for uv's
            and pip's default index.
        project: The distribution's name on that index; None where ``source`` is the file's URL.
    """

    filename: str
    sha256: str
    size: int | None
    source: str | None
    project: str | None


@dataclass(frozen=True, slots=True)
class Missing:
    """A file that could not be had, and why."""

    filename: str
    sha256: str
    size: int | None
    why: str

    def __str__(self) -> str:
        size = f"{self.size} bytes" if self.size is not None else "size unknown"
        return f"{self.filename}  sha256 {self.sha256}  {size}: {self.why}"


def wheel(artifact: Artifact, index_url: str | None) -> Wanted:
    """Return what to ask an index for a wheel."""
    return Wanted(artifact.filename, artifact.sha256, artifact.size, index_url, artifact.name)


def archive(package: Package) -> Wanted:
    """Return what to ask a channel for a conda package; ``$VARIABLES`` in its URL are filled in."""
    url = os.path.expandvars(package.url)
    return Wanted(package.filename, package.sha256, package.size, url, None)


def fetch(
    wanted: Iterable[Wanted],
    folder: Path,
    wheelhouses: Sequence[Path],
    progress: Progress,
    *,
    offline: bool = False,
) -> list[Missing]:
    """Bring files into a folder; return those that could not be had, in the order asked for.

    Args:
        wanted: The files.
        folder: Where to; what lies there already with the right hash is kept.
        wheelhouses: Folders to copy from before any server is asked.
        progress: Hears of files in wheelhouses that are not what the lock names.
        offline: Ask no server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rest = _from_folders(list(wanted), folder, [folder, *wheelhouses], progress)
    if offline:
        return [_missing(item, "it is in no wheelhouse, and --offline was given") for item in rest]
    if not rest:
        return []
    with web.session() as shared, ThreadPoolExecutor(_AT_ONCE) as pool:
        # The largest first, so that none of them is left to run alone at the end.
        order = sorted(rest, key=lambda item: -(item.size or 0))
        failed = dict(
            zip(order, pool.map(lambda item: _download(shared, item, folder), order), strict=True)
        )
    return [_missing(item, why) for item in rest if (why := failed[item])]


def _missing(item: Wanted, why: str) -> Missing:
    return Missing(item.filename, item.sha256, item.size, why)


def _from_folders(
    wanted: list[Wanted], folder: Path, wheelhouses: Sequence[Path], progress: Progress
) -> list[Wanted]:
    for house in wheelhouses:
        found = wheelhouse.find(wanted, [house])
        spoilt = set(wheelhouse.damaged(found))
        for path in sorted(spoilt):
            progress.note(f"left aside {path}: its sha256 is not the lock's")
        good = {item: path for item, path in found.items() if path not in spoilt}
        for item, path in good.items():
            _copy(path, folder / item.filename)
        wanted = [item for item in wanted if item not in good]
    return wanted


def _copy(source: Path, path: Path) -> None:
    if source == path:
        return
    part = web.partial(path)
    try:
        shutil.copyfile(source, part)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ToolError(
            f"cannot copy {source} to {path.parent}",
            evidence=str(error),
            remedy="check the folder and the free space",
        ) from error


def _download(shared: Session, item: Wanted, folder: Path) -> str:
    """Download a file; return why that failed, or ""."""
    try:
        url = (
            web.find(shared, item.source, item.project, item.filename)
            if item.project
            else str(item.source)
        )
        web.download(shared, url, folder / item.filename, item.sha256)
    except web.UnreachableError as error:
        return str(error)
    return ""
