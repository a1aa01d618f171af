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

from provision.artifacts.resumable_download import download
from provision.artifacts.wheelhouse import damaged_folders, find_artifacts
from provision.core import network
from provision.core.errors import ToolError
from provision.core.hashing import sha256_file
from provision.core.text import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pypi_simple import DistributionPackage
    from requests import Session

    from provision.core.progress import Progress
    from provision.lockfile.conda import CondaPackage
    from provision.lockfile.pip import Artifact

PARTIAL = ".partial"  # the folder of files that are not yet whole and known to be right
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class WantedFile:
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
class MissingFile:
    """A file that could not be had, and why."""

    filename: str
    sha256: str
    size: int | None
    why: str

    def __str__(self) -> str:
        known = f"{self.size} bytes" if self.size is not None else "size unknown"
        return f"{self.filename}  sha256 {self.sha256}  {known}: {self.why}"


def wanted_wheel(artifact: Artifact, index_url: str | None) -> WantedFile:
    """Return what to ask an index for a wheel."""
    return WantedFile(artifact.filename, artifact.sha256, artifact.size, index_url, artifact.name)


def wanted_archive(package: CondaPackage) -> WantedFile:
    """Return what to ask a channel for a conda package; ``$VARIABLES`` in its URL are filled in."""
    url = os.path.expandvars(package.url)
    return WantedFile(package.filename, package.sha256, package.size, url, None)


def fetch_all(
    wanted: Iterable[WantedFile],
    folder: Path,
    wheelhouses: Sequence[Path],
    progress: Progress,
    *,
    offline: bool = False,
) -> list[MissingFile]:
    """Bring files into a folder; return those that could not be had, in the order asked for.

    Args:
        wanted: The files.
        folder: Where to; what lies there already with the right hash is kept.
        wheelhouses: Folders to copy from before any server is asked.
        progress: Hears of each download, and of files that are not what the lock names.
        offline: Ask no server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rest = _from_folders(list(wanted), folder, [folder, *wheelhouses], progress)
    for item in rest:  # what still lies under that name is not it
        (folder / item.filename).unlink(missing_ok=True)
    if offline:
        return [_missing(item, "it is in no wheelhouse, and --offline was given") for item in rest]
    if not rest:
        return []
    with network.session() as shared, ThreadPoolExecutor(_AT_ONCE) as pool:
        # The largest first, so that none of them is left to run alone at the end.
        order = sorted(rest, key=lambda item: -(item.size or 0))
        ended = pool.map(lambda item: _download(shared, item, folder, progress), order)
        failed = dict(zip(order, ended, strict=True))
    return [_missing(item, why) for item in rest if (why := failed[item])]


def _missing(item: WantedFile, why: str) -> MissingFile:
    return MissingFile(item.filename, item.sha256, item.size, why)


def _from_folders(
    wanted: list[WantedFile], folder: Path, wheelhouses: Sequence[Path], progress: Progress
) -> list[WantedFile]:
    for house in wheelhouses:
        found = find_artifacts(wanted, [house])
        spoilt = set(damaged_folders(found))
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
    part = path.parent / PARTIAL / path.name
    try:
        part.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, part)
        part.replace(path)
    except OSError as error:
        raise ToolError(
            f"cannot copy {source} to {path.parent}",
            evidence=str(error),
            remedy="check the folder and the free space",
        ) from error


def _download(shared: Session, item: WantedFile, folder: Path, progress: Progress) -> str:
    """Download a file; return why that failed, or ""."""
    try:
        url = str(item.source) if item.project is None else _find(shared, item)
        part = download(shared, url, folder / PARTIAL, item.filename, _ignore)
    except ToolError as error:
        return _reason(error)
    if (digest := sha256_file(part)) != item.sha256:
        part.unlink()
        return f"the server gives another file under this name, sha256 {digest}"
    part.replace(folder / item.filename)
    progress.step(f"  {item.filename}, {size((folder / item.filename).stat().st_size)}")
    return ""


def _ignore(filename: str, done: int, total: int | None) -> None:
    """Hear of a piece that arrived: several files arrive at once, so only whole ones are told."""


def _find(shared: Session, item: WantedFile) -> str:
    for package in list_files(shared, item.source, str(item.project)):
        if package.filename == item.filename:
            return str(package.url)
    raise ToolError("its index does not list it")


def list_files(shared: Session, index: str | None, project: str) -> list[DistributionPackage]:
    """Return the files of a distribution on a simple index; None is the default index.

    Raises:
        ToolError: The index does not answer, or does not know the distribution.
    """
    import pypi_simple  # noqa: PLC0415 - only a file that is not here is asked for
    import requests  # noqa: PLC0415

    asked = pypi_simple.PyPISimple(index or pypi_simple.PYPI_SIMPLE_ENDPOINT, session=shared)
    try:
        return asked.get_project_page(project, timeout=network.TIMEOUT).packages
    except pypi_simple.NoSuchProjectError as error:
        raise ToolError("its index does not know the distribution") from error
    except (requests.RequestException, pypi_simple.UnsupportedContentTypeError) as error:
        raise ToolError("its index does not answer") from error


def _reason(error: ToolError) -> str:
    """Return why a file did not come, without its address, which may hold a password."""
    cause = error.__cause__
    reply = getattr(cause, "response", None)
    if reply is not None:
        return f"the server answered {reply.status_code} {reply.reason}"
    detail = getattr(cause, "strerror", None) or type(cause).__name__
    return f"{error.what} ({detail})" if cause else error.what
