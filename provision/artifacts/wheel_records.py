"""The digests of wheels' RECORDs, read from local wheels, or from remote ones by range requests.

A wheel is a zip archive: its table of contents and its RECORD are at the end, so a few kilobytes of
a file of gigabytes are enough. What a server sends this way cannot be compared with the hash of the
wheel. A wrong RECORD can therefore end in a build that fails, but never in one that passes: the
files of a wheel with the right hash do not fit it.
"""

from __future__ import annotations

import csv
import io
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

from provision.artifacts.wheelhouse import find_artifacts
from provision.core import network
from provision.core.credentials import login_for
from provision.core.errors import ToolError
from provision.core.hashing import sha256_file
from provision.lockfile.wheel_record import common_path, parse_record, record_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from requests import Session

    from provision.lockfile.pip import Artifact

_PIECE = 1 << 16  # bytes per request, at least; the RECORDs of 60 wheels took 72 requests
# Caps for what a server may send. torch's table of contents and RECORD take 4 MB together.
_MOST_BYTES = 32 << 20
_LONGEST_RECORD = 64 << 20
_FAULTS = (OSError, ValueError, EOFError, NotImplementedError, csv.Error, zipfile.BadZipFile)


def local_records(artifacts: Iterable[Artifact], folders: Sequence[Path]) -> dict[str, str]:
    """Return the digests of the RECORDs that wheelhouses have, by the SHA-256 of the wheel."""
    found = {}
    for artifact, path in find_artifacts(artifacts, folders).items():
        if sha256_file(path) == artifact.sha256 and (record := wheel_record(path)):
            found[artifact.sha256] = record
    return found


def remote_records(
    artifacts: Iterable[Artifact], urls: Mapping[str, str], mirror: str | None
) -> dict[str, str]:
    """Return the digests of the RECORDs that servers let be read, by the SHA-256 of the wheel.

    Args:
        artifacts: The wheels; one without a size is left out.
        urls: Address of each wheel, by its SHA-256.
        mirror: Address of the index; see :func:`provision.core.network.content_lengths`.
    """
    wanted = [artifact for artifact in artifacts if artifact.size]
    if not wanted:
        return {}

    def read(artifact: Artifact) -> str | None:
        url = urls[artifact.sha256]
        return remote_record(session, url, artifact.size or 0, login_for(url, mirror))

    with network.session() as session, ThreadPoolExecutor(network.PARALLEL_REQUESTS) as pool:
        records = zip(wanted, pool.map(read, wanted), strict=True)
        return {artifact.sha256: record for artifact, record in records if record}


def remote_record(
    session: Session, url: str, size: int, auth: tuple[str, str] | None = None
) -> str | None:
    """Return the digest of the RECORD of a wheel on a server, or None where it cannot be read."""
    return wheel_record(io.BufferedReader(_RemoteFile(session, url, size, auth), _PIECE))


def wheel_record(file: Path | IO[bytes]) -> str | None:
    """Return the digest of a wheel's RECORD, or None where it cannot be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            # Exactly one, or unpacking fails: of two, an installer might take the other.
            (member,) = [
                entry
                for entry in archive.infolist()
                if entry.filename.endswith(".dist-info/RECORD") and entry.filename.count("/") == 1
            ]
            if member.file_size > _LONGEST_RECORD:
                return None
            text = archive.read(member).decode("utf-8")
    except _FAULTS:
        return None
    lines = parse_record(text.splitlines())
    return record_digest((common_path(line.path), line.hash) for line in lines)


class _RemoteFile(io.RawIOBase):
    """A file on a server that answers range requests; what was read stays in memory."""

    def __init__(self, session: Session, url: str, size: int, auth: tuple[str, str] | None) -> None:
        self._session, self._url, self._size, self._auth = session, url, size, auth
        self._at = self._fetched = 0
        self._parts: list[tuple[int, bytes]] = []

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        stop = min(self._size, self._at + len(buffer))
        if self._at >= stop:
            return 0
        held = next((p for p in self._parts if p[0] <= self._at < p[0] + len(p[1])), None)
        # Zip archives are read from the end, where the table of contents and RECORD are.
        first = min(self._at, max(0, self._size - _PIECE))
        start, data = held or self._fetch(first, min(self._size, max(stop, self._at + _PIECE)))
        piece = data[self._at - start : stop - start]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _fetch(self, start: int, stop: int) -> tuple[int, bytes]:
        import requests  # noqa: PLC0415

        self._fetched += stop - start
        if self._fetched > _MOST_BYTES:
            raise OSError("more bytes than the end of a wheel has")
        # Without the second header a server may compress, and its ranges are of that.
        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        try:
            with self._session.get(
                self._url, headers=headers, auth=self._auth, timeout=network.TIMEOUT, stream=True
            ) as reply:
                # 200: the server knows no ranges, and would send gigabytes.
                data = reply.raw.read(stop - start) if reply.status_code == 206 else b""
        except (requests.RequestException, ToolError) as error:
            raise OSError(str(error)) from error
        if len(data) != stop - start:
            raise OSError("the server did not send the range")
        self._parts.append((start, data))
        return start, data
