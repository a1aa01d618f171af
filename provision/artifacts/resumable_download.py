"""Fetch a file over HTTP into a folder, going on where an earlier attempt broke off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from provision.core.errors import ToolError
from provision.core.network import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

    from requests import Response, Session

_CHUNK = 1 << 16  # what is in the last, broken piece is lost
_ATTEMPTS = 3


class OnBytes(Protocol):
    """Told of each piece that arrives."""

    def __call__(self, filename: str, done: int, total: int | None) -> None:  # noqa: D102
        ...


def download(session: Session, url: str, folder: Path, filename: str, on_bytes: OnBytes) -> Path:
    """Return the path of a file, downloaded whole.

    A part that an earlier attempt left is gone on with only if the server says that it still has
    that very file (its ETag); otherwise the download starts over.

    Args:
        session: From :func:`provision.core.network.session`.
        url: Where the file is.
        folder: Where it goes; the part is kept there when the network fails.
        filename: Its name there.
        on_bytes: Told of each piece.

    Raises:
        ToolError: The server refuses, or the connection broke off each time.
    """
    import requests  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    part, tag = folder / f"{filename}.part", folder / f"{filename}.etag"
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with session.get(url, headers=_range(part, tag), stream=True, timeout=TIMEOUT) as reply:
                reply.raise_for_status()
                _save(reply, part, tag, filename, on_bytes)
            break
        except requests.HTTPError as error:
            raise _failed(filename, error, part) from error
        except (requests.RequestException, OSError) as error:
            if attempt == _ATTEMPTS:
                raise _failed(filename, error, part) from error
    tag.unlink(missing_ok=True)
    return part.replace(folder / filename)


def _range(part: Path, tag: Path) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity"}
    if part.is_file() and tag.is_file():
        headers["Range"] = f"bytes={part.stat().st_size}-"
        headers["If-Range"] = tag.read_text(encoding="utf-8")
    return headers


def _save(reply: Response, part: Path, tag: Path, filename: str, on_bytes: OnBytes) -> None:
    resumed = reply.status_code == 206
    if not resumed:
        part.unlink(missing_ok=True)
        tag.unlink(missing_ok=True)
        # A weak ETag promises the same meaning, not the same bytes.
        if (etag := reply.headers.get("ETag", "")) and not etag.startswith("W/"):
            tag.write_text(etag, encoding="utf-8")
    done = part.stat().st_size if resumed else 0
    length = reply.headers.get("Content-Length")
    total = done + int(length) if length else None
    with part.open("ab") as stream:
        for piece in reply.iter_content(_CHUNK):
            stream.write(piece)
            done += len(piece)
            on_bytes(filename, done, total)


def _failed(filename: str, error: Exception, part: Path) -> ToolError:
    kept = part.stat().st_size if part.is_file() else 0
    return ToolError(
        f"could not download {filename}",
        evidence=str(error),
        cause=f"{kept} bytes arrived and are kept" if kept else "",
        remedy="run it again; it goes on where it stopped",
    )
