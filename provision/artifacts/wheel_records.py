"""The digests of wheels' RECORDs, read from local wheels, or from remote ones by range requests.

A wheel has its table of contents and its RECORD at the end. They cannot be compared with the hash
of the wheel, but a wrong RECORD only makes a build fail: the wheel's files do not fit it.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from provision.artifacts.wheelhouse import find_artifacts
from provision.core import network
from provision.core.hashing import sha256_file
from provision.core.interruption import in_threads
from provision.lockfile.wheel_record import common_path, parse_record, record_digest

if TYPE_CHECKING:
    from requests import Session

    from provision.lockfile.pip import Artifact

# Bytes of the end of a wheel to ask for, until they hold its table of contents and its RECORD; of
# torch both take 4 MB. Nothing longer is read, whatever a server offers.
_ENDS = (1 << 16, 1 << 20, 1 << 25)
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_LONGEST_RECORD = 64 << 20
_FAULTS = (
    OSError,
    ValueError,
    EOFError,
    NotImplementedError,
    csv.Error,
    zipfile.BadZipFile,
)


def local_records(
    artifacts: Iterable[Artifact], folders: Sequence[Path]
) -> dict[str, str]:
    """Return the digests of the RECORDs that wheelhouses have, by the SHA-256 of the wheel."""
    found = find_artifacts(artifacts, folders).items()
    good = (
        (a.sha256, wheel_record(path))
        for a, path in found
        if sha256_file(path) == a.sha256
    )
    return {sha256: record for sha256, record in good if record}


def remote_records(
    artifacts: Iterable[Artifact], urls: Mapping[str, str], mirror: str | None
) -> dict[str, str]:
    """Return the digests of the RECORDs that servers let be read, by the SHA-256 of the wheel.

    ``urls`` are by it too; ``mirror`` is the index. A wheel without a size is left out.
    """
    wanted = {artifact.sha256: artifact.size for artifact in artifacts if artifact.size}
    if not wanted:
        return {}

    def read(sha256: str) -> tuple[str, str | None]:
        url = urls[sha256]
        return sha256, remote_record(
            session, url, wanted[sha256], network.login_for(url, mirror)
        )

    with network.session() as session:
        records = in_threads(read, wanted, network.PARALLEL_REQUESTS)
        return {sha256: record for sha256, record in records if record}


def remote_record(
    session: Session, url: str, size: int, auth: tuple[str, str] | None = None
) -> str | None:
    """Return the digest of the RECORD of a wheel on a server, or None where it cannot be read."""
    for length in _ENDS:
        end = _end(session, url, size, min(size, length), auth)
        # zipfile counts from the end, so what is missing before it does not matter.
        if end is None or (record := wheel_record(io.BytesIO(end))) or length >= size:
            return record if end else None
    return None


def _end(
    session: Session, url: str, size: int, length: int, auth: tuple[str, str] | None
) -> bytes | None:
    import requests  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - what reading a body raises

    # Without the second header a server may compress, and its ranges are of that.
    headers = {
        "Range": f"bytes={size - length}-{size - 1}",
        "Accept-Encoding": "identity",
    }
    try:
        with session.get(
            url, headers=headers, auth=auth, timeout=network.TIMEOUT, stream=True
        ) as reply:
            # 200: the server knows no ranges, and would send gigabytes.
            found = reply.raw.read(length) if reply.status_code == 206 else b""
    except (requests.RequestException, HTTPError):
        return None
    return found if len(found) == length else None


def wheel_record(file: Path | IO[bytes]) -> str | None:
    """Return the digest of a wheel's RECORD, or None where it cannot be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            # Exactly one, or unpacking fails: of two, an installer might take the other.
            (member,) = [e for e in archive.infolist() if _RECORD.fullmatch(e.filename)]
            if member.file_size > _LONGEST_RECORD:
                return None
            text = archive.read(member).decode("utf-8")
    except _FAULTS:
        return None
    lines = parse_record(text)
    return record_digest((common_path(line.path), line.hash) for line in lines)
