"""Transfer one file over HTTP, resuming an earlier attempt; nothing is verified here."""

import errno
from pathlib import Path
from typing import Any

import requests

from provision.core import limits
from provision.core.errors import ToolError
from provision.core.interruption import check_interrupted
from provision.core.network import TIMEOUT, stated_length
from provision.core.progress import Progress

_CHUNK = 1 << 16  # bytes; a broken connection loses at most one chunk
# The session retries requests; these are for connections that break in the middle of the body.
_ATTEMPTS = 3


def download(
    session: requests.Session,
    url: str,
    folder: Path,
    filename: str,
    progress: Progress,
    *,
    most: int | None = None,
) -> Path:
    """Download a file and return its path; without ``most``, of at most ``limits.DOWNLOAD`` bytes.

    ToolError: the server refused, sent too much, or the connection broke at each attempt; then the
    part stays in the folder.
    """
    # A part is resumed only if the server confirms by its ETag that the file is unchanged
    # (``If-Range``): else the halves of two files would show at the end, by a wrong hash.
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{filename}.part"
    tag = folder / f"{filename}.etag"
    arrived = {filename: (0, most or 0)}
    progress.step(f"  {filename}", lambda: {"files": arrived})
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with session.get(
                url, headers=_range(part, tag), stream=True, timeout=TIMEOUT
            ) as reply:
                reply.raise_for_status()
                _save(reply, part, tag, filename, arrived, most=most or limits.DOWNLOAD)
            break
        except requests.HTTPError as error:
            # 416: the part is already whole, because an earlier process died before its rename.
            # A server cannot confirm that, so the file is downloaded again.
            if error.response.status_code != 416 or attempt == _ATTEMPTS:
                # Such as 404: the next attempt would get the same answer.
                raise _failed(filename, error, part) from error
            tag.unlink(missing_ok=True)
        except (requests.RequestException, OSError) as error:
            if error.errno == errno.EFBIG:  # it would be as large the next time
                part.unlink(missing_ok=True)
            if error.errno == errno.EFBIG or attempt == _ATTEMPTS:
                raise _failed(filename, error, part) from error
    progress.step("")
    tag.unlink(missing_ok=True)
    return part.replace(folder / filename)


def _range(part: Path, tag: Path) -> dict[str, str]:
    # Ranges of a compressed transfer would count compressed bytes.
    headers = {"Accept-Encoding": "identity"}
    if part.is_file() and tag.is_file():
        headers["Range"] = f"bytes={part.stat().st_size}-"
        headers["If-Range"] = tag.read_text(encoding="utf-8")
    return headers


def _save(
    reply: requests.Response,
    part: Path,
    tag: Path,
    filename: str,
    arrived: dict[str, Any],
    *,
    most: int,
) -> None:
    resumed = reply.status_code == 206
    if not resumed:
        part.unlink(missing_ok=True)
        tag.unlink(missing_ok=True)
        # A weak ETag promises equivalent content, not the same bytes (RFC 9110, 8.8.1).
        etag = reply.headers.get("ETag", "")
        if etag and not etag.startswith("W/"):
            tag.write_text(etag, encoding="utf-8")
    done = part.stat().st_size if resumed else 0
    total = done + (stated_length(reply) or -done)
    with part.open("ab") as stream:
        # Counted here, since what a server states need not be what it sends.
        for chunk in limits.bounded(reply.iter_content(_CHUNK), most - done, filename):
            stream.write(chunk)
            done += len(chunk)
            check_interrupted()  # Ctrl-C would wait for all files that are queued
            arrived[filename] = done, total


def _failed(filename: str, error: Exception, part: Path) -> ToolError:
    kept = part.stat().st_size if part.is_file() else 0
    cause = f"{kept} bytes arrived and are kept" if kept else ""
    return ToolError(
        f"could not download {filename}",
        evidence=str(error),
        cause=cause,
        remedy="run it again; the download resumes where it stopped",
    )
