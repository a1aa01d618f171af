"""The digests of wheels' RECORDs, read from local wheels, or from remote ones by range requests.

A wheel has its table of contents and its RECORD at the end. They cannot be compared with the hash
of the wheel, but a wrong RECORD only makes a build fail: the wheel's files do not fit it.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

import requests
from urllib3.exceptions import HTTPError

from provision.artifacts.wheelhouse import find_artifacts
from provision.core import network
from provision.core.hashing import sha256_file
from provision.core.interruption import in_threads
from provision.lockfile.pip import Artifact
from provision.lockfile.wheel_record import common_path, parse_record, record_digest

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
    records = {}
    for artifact, path in find_artifacts(artifacts, folders).items():
        if sha256_file(path) == artifact.sha256:
            record = wheel_record(path)
            if record:
                records[artifact.sha256] = record
    return records


def remote_records(
    artifacts: Iterable[Artifact], urls: Mapping[str, str], mirror: str | None
) -> dict[str, str]:
    """Return the digests of the RECORDs that servers let be read, by the SHA-256 of the wheel.

    ``urls`` are by it too; ``mirror`` is the index. A wheel without a size is left out.
    """
    sized = [artifact for artifact in artifacts if artifact.size]

    def read(artifact: Artifact) -> str | None:
        url = urls[artifact.sha256]
        login = network.login_for(url, mirror)
        return remote_record(session, url, artifact.size or 0, login)

    with network.session() as session:
        records = in_threads(read, sized, network.PARALLEL_REQUESTS)
    by_hash = {}
    for artifact, record in zip(sized, records, strict=True):
        if record:
            by_hash[artifact.sha256] = record
    return by_hash


def remote_record(
    session: requests.Session, url: str, size: int, auth: tuple[str, str] | None = None
) -> str | None:
    """Return the digest of the RECORD of a wheel on a server, or None where it cannot be read."""
    for length in _ENDS:
        end = _end(session, url, size, min(size, length), auth)
        # zipfile counts from the end, so what is missing before it does not matter.
        record = wheel_record(io.BytesIO(end)) if end else None
        if record or end is None or length >= size:
            return record
    return None


def _end(
    session: requests.Session,
    url: str,
    size: int,
    length: int,
    auth: tuple[str, str] | None,
) -> bytes | None:
    # Without the second header a server may compress, and its ranges are of that.
    headers = {
        "Range": f"bytes={size - length}-{size - 1}",
        "Accept-Encoding": "identity",
    }
    try:
        with session.get(
            url, headers=headers, auth=auth, timeout=network.TIMEOUT, stream=True
        ) as reply:
            # 200: the server supports no ranges, and would send gigabytes.
            end = reply.raw.read(length) if reply.status_code == 206 else b""
    except (requests.RequestException, HTTPError):  # or what reading a body raises
        return None
    return end if len(end) == length else None


def wheel_record(file: Path | IO[bytes]) -> str | None:
    """Return the digest of a wheel's RECORD, or None where it cannot be read."""
    try:
        with zipfile.ZipFile(file) as archive:
            # Exactly one, or unpacking fails: of two, an installer might take the other.
            (name,) = filter(_RECORD.fullmatch, archive.namelist())
            if archive.getinfo(name).file_size > _LONGEST_RECORD:
                return None
            text = archive.read(name).decode("utf-8")
    except _FAULTS:
        return None
    lines = parse_record(text)
    return record_digest((common_path(line.path), line.hash) for line in lines)
