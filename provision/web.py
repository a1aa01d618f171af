"""The door to the network, for the little that no tool fetches for us."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from provision.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from requests import Response, Session

TIMEOUT = (10, 60)  # seconds to connect, seconds of silence
_AT_ONCE = 16
_CHUNK = 1 << 20
_TRIES = 5  # of a download that stops half-way; each goes on where the last one stopped


class UnreachableError(ToolError):
    """A server does not give a file, or not the one that is wanted; the message tells why."""


def session() -> Session:
    """Return an HTTP session that retries what is worth it and trusts what the user trusts."""
    import requests  # noqa: PLC0415 - most verbs never reach the network
    from requests.adapters import HTTPAdapter  # noqa: PLC0415
    from urllib3 import Retry  # noqa: PLC0415

    made = requests.Session()
    retry = Retry(total=3, backoff_factor=0.3, status_forcelist=(429, 502, 503, 504),
                  raise_on_status=False)  # fmt: skip
    for scheme in ("https://", "http://"):
        made.mount(scheme, HTTPAdapter(max_retries=retry, pool_maxsize=_AT_ONCE))
    if bundle := os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT"):
        made.verify = bundle
    return made


def sizes(urls: Iterable[str]) -> dict[str, int]:
    """Return the size in bytes of each file, asked for without downloading it.

    Raises:
        ToolError: A server does not tell.
    """
    wanted = list(urls)
    if not wanted:
        return {}
    with session() as shared, ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(lambda url: _size(shared, url), wanted), strict=True))


def _size(shared: Session, url: str) -> int:
    import requests  # noqa: PLC0415

    filename = url.rpartition("/")[2]
    try:
        # Without this header a server may compress, and tell the size of that.
        plain = {"Accept-Encoding": "identity"}
        reply = shared.head(url, headers=plain, timeout=TIMEOUT, allow_redirects=True)
        reply.raise_for_status()
        return int(reply.headers["Content-Length"])
    except (requests.RequestException, KeyError, ValueError) as error:
        raise ToolError(
            f"no size known for {filename}",
            evidence=str(error),
            cause="the index does not tell it, and the file's server does not either",
            remedy="try again, or set pip's index-url to a mirror that tells sizes",
        ) from error


def find(shared: Session, index: str | None, project: str, filename: str) -> str:
    """Return the address of a file on a simple index (PEP 503, PEP 691).

    Args:
        shared: The session.
        index: The index; None for the default one.
        project: The distribution.
        filename: The file.

    Raises:
        UnreachableError: The index does not answer or does not list the file.
    """
    from pypi_simple import (  # noqa: PLC0415
        PYPI_SIMPLE_ENDPOINT,
        NoSuchProjectError,
        PyPISimple,
        UnsupportedContentTypeError,
    )
    from requests import RequestException  # noqa: PLC0415

    try:
        asked = PyPISimple(index or PYPI_SIMPLE_ENDPOINT, session=shared)
        page = asked.get_project_page(project, timeout=TIMEOUT)
    except (RequestException, NoSuchProjectError, UnsupportedContentTypeError) as error:
        raise UnreachableError(_brief(error)) from error
    for package in page.packages:
        if package.filename == filename:
            return str(package.url)
    raise UnreachableError("its index does not list it")


def partial(path: Path) -> Path:
    """Return where a file is kept until it is whole."""
    return path.with_name(f".{path.name}.part")


def download(shared: Session, url: str, path: Path, sha256: str) -> None:
    """Bring a file to ``path`` if it is the wanted one; go on where an earlier try stopped.

    Raises:
        UnreachableError: The server does not give it, or what it gives has another hash.
        ToolError: It cannot be written.
    """
    import requests  # noqa: PLC0415

    part = partial(path)
    for left in reversed(range(_TRIES)):
        before = part.stat().st_size if part.is_file() else 0
        try:
            digest = _go_on(shared, url, part)
            break
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            grown = part.is_file() and part.stat().st_size > before
            if not left or not grown:
                raise UnreachableError(_brief(error)) from error
        except requests.RequestException as error:
            raise UnreachableError(_brief(error)) from error
        except OSError as error:
            raise ToolError(
                f"cannot write {part}", evidence=str(error), remedy="check the free space"
            ) from error
    if digest != sha256:
        part.unlink()
        raise UnreachableError(f"the server gives another file under this name, sha256 {digest}")
    part.replace(path)


def _go_on(shared: Session, url: str, part: Path) -> str:
    """Fetch what a partial file lacks; return the sha256 of the whole."""
    total = hashlib.sha256()
    # A compressed transfer could not be continued.
    headers = {"Accept-Encoding": "identity"}
    with part.open("a+b") as stream:
        stream.seek(0)
        while block := stream.read(_CHUNK):
            total.update(block)
        if start := stream.tell():
            headers["Range"] = f"bytes={start}-"
        with shared.get(url, headers=headers, timeout=TIMEOUT, stream=True) as reply:
            if start and reply.status_code == 416:  # there is no more: it was whole already
                return total.hexdigest()
            reply.raise_for_status()
            if reply.status_code != 206:
                stream.truncate(0)
                total = hashlib.sha256()
            for block in reply.iter_content(_CHUNK):
                stream.write(block)
                total.update(block)
    return total.hexdigest()


def _brief(error: Exception) -> str:
    """Return the reason in an error's words, without the address, which may hold a password."""
    reply: Response | None = getattr(error, "response", None)
    if reply is not None:
        return f"the server answered {reply.status_code} {reply.reason}"
    return type(error).__name__
