"""Collect many locked artifacts in a folder: from wheelhouses, else by parallel downloads.

A file gets its name only when its SHA-256 is the lock's, so every named file is verified.
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from requests import Session

from provision.artifacts.resumable_download import download
from provision.artifacts.wheelhouse import WantedFile
from provision.core import network
from provision.core.errors import ToolError, os_errors
from provision.core.hashing import sha256_file
from provision.core.interruption import in_threads
from provision.core.locking import folder_lock, waiting
from provision.core.progress import Progress
from provision.lockfile.conda import CondaPackage
from provision.lockfile.pip import Artifact

_BARE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!~-]*")
PARTIAL = ".partial"  # the folder of files that are incomplete or not yet verified


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file that could not be obtained, and why."""

    filename: str
    """Name of the file."""
    sha256: str
    """Its SHA-256."""
    size: int | None
    """In bytes; null where the lock has none."""
    why: str
    """Why it could not be obtained."""

    def __str__(self) -> str:
        size = f"  {self.size} bytes" if self.size else ""
        return f"{self.filename}  sha256 {self.sha256}{size}: {self.why}"


def wanted_wheel(artifact: Artifact, index_url: str | None) -> WantedFile:
    """Return the file of a locked wheel, to be found on a simple index."""
    return WantedFile(
        artifact.filename, artifact.sha256, artifact.size, index_url, artifact.name
    )


def wanted_archive(package: CondaPackage) -> WantedFile:
    """Return the archive of a conda package."""
    return WantedFile(package.filename, package.sha256, package.size, package.url, None)


def fetch_all(
    wanted: Iterable[WantedFile],
    folder: Path,
    wheelhouses: Sequence[Path],
    progress: Progress,
    *,
    offline: bool = False,
) -> list[MissingFile]:
    """Collect files, wheelhouses first; return those that cannot be obtained, in this order."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(wanted)
    for item in wanted:
        # Locks with other names are refused when read; what writes does not rely on that.
        if not _BARE.fullmatch(item.filename):
            text = f"{item.filename!r} is not the name of a file to be collected"
            raise ToolError(text)
    with folder_lock(folder / PARTIAL, waiting(folder, progress)):
        reasons = _from_folders(wanted, folder, [folder, *wheelhouses], progress)
        rest = list(reasons)
        for item in rest:  # a file of that name has the wrong hash
            (folder / item.filename).unlink(missing_ok=True)
        if rest and not offline:
            with network.session() as session:
                # Largest first, so that none of them is left to run alone at the end.
                queue = sorted(rest, key=lambda item: item.size or 0, reverse=True)
                fetch = partial(_download, session, folder, progress)
                ended = in_threads(fetch, queue, network.PARALLEL_DOWNLOADS)
            reasons |= zip(queue, ended, strict=True)
    missing = []
    for item, why in reasons.items():
        if why:
            missing.append(MissingFile(item.filename, item.sha256, item.size, why))
    return missing


def _from_folders(
    wanted: list[WantedFile],
    folder: Path,
    wheelhouses: Sequence[Path],
    progress: Progress,
) -> dict[WantedFile, str]:
    """Return the files that no folder has, each with why."""
    # One wheelhouse at a time: a damaged file in the first must not hide a good one in the next.
    absent = "it is in no wheelhouse, and --offline was given"
    reasons = dict.fromkeys(wanted, absent)
    for wheelhouse in wheelhouses:
        for item in list(reasons):
            path = wheelhouse / item.filename
            if not path.is_file():
                continue
            found = _copy(path, item, folder)
            if found == item.sha256:
                del reasons[item]
                continue
            if wheelhouse != folder:  # where it is replaced
                progress.note(f"ignored {path}: its sha256 is not the lock's")
                reasons[item] = f"{path} has sha256 {found}, copy it again"
    return reasons


def _copy(source: Path, item: WantedFile, folder: Path) -> str:
    """Copy a file to its final name if its hash is right; return the one that it has."""
    # The copy is hashed, as the source may belong to another user and change in between.
    path = folder / item.filename
    part = folder / PARTIAL / item.filename
    with os_errors(
        f"cannot copy {source} to {path.parent}", "check the folder and the free space"
    ):
        if source == path:
            return sha256_file(path)
        part.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, part)
        digest = sha256_file(part)
        if digest == item.sha256:
            part.replace(path)
        else:
            part.unlink()
    return digest


def _download(
    session: Session, folder: Path, progress: Progress, item: WantedFile
) -> str:
    """Download and verify a file; return why that failed, or ""."""
    try:
        url = item.source
        if item.project is not None:
            url = _file_url(session, item)
        place = folder / PARTIAL
        part = download(
            session, str(url), place, item.filename, progress, most=item.size
        )
    except ToolError as error:
        return _reason(error)
    # Hashed as a whole after the transfer, because a resumed file was not seen from its start.
    if (digest := sha256_file(part)) != item.sha256:
        part.unlink()
        return f"the server has another file of this name, sha256 {digest}"
    part.replace(folder / item.filename)
    return ""


def _file_url(session: Session, item: WantedFile) -> str:
    # Its parsers of HTML and mail take longer to load than a build with nothing to do.
    from provision.catalog.simple_index import list_files  # noqa: PLC0415

    for package in list_files(session, item.source, str(item.project)):
        if package.filename == item.filename:
            return str(package.url)
    raise ToolError("its index does not list it")


def _reason(error: ToolError) -> str:
    """Return why a download failed, without the URL, which may hold a password."""
    cause = error.__cause__
    reply = getattr(cause, "response", None)
    if reply is not None:
        return f"the server answered {reply.status_code} {reply.reason}"
    detail = getattr(cause, "strerror", None) or type(cause).__name__
    return f"{error.what} ({detail})" if cause else error.what
