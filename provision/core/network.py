"""HTTP sessions and file sizes, for requests that neither uv nor pypi-simple makes."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from provision.core import limits
from provision.core.errors import ToolError
from provision.core.interruption import in_threads
from provision.core.privacy import redact

if TYPE_CHECKING:
    from requests import Response, Session

TIMEOUT = (10, 60)  # seconds to connect, seconds of silence
# How many at once, here and in provision.artifacts: small requests wait for the server, downloads
# share the bandwidth, and public indexes throttle clients that open dozens of connections.
PARALLEL_REQUESTS = 16
PARALLEL_DOWNLOADS = 8
_RETRIES = 3


def session() -> Session:
    """Return an HTTP session that retries temporary failures and uses the user's CA bundle."""
    import requests  # noqa: PLC0415 - most verbs never reach the network
    from requests.adapters import HTTPAdapter  # noqa: PLC0415
    from urllib3 import Retry  # noqa: PLC0415

    made = requests.Session()
    made.hooks["response"].append(_limit)
    # raise_on_status: the caller reports the last response, which MaxRetryError would hide.
    retry = Retry(
        total=_RETRIES,
        backoff_factor=0.3,
        status_forcelist=(429, 502, 503, 504),
        raise_on_status=False,
    )
    for scheme in ("https://", "http://"):
        # By default a pool keeps 10 connections and discards those beyond.
        made.mount(
            scheme, HTTPAdapter(max_retries=retry, pool_maxsize=PARALLEL_REQUESTS)
        )
    # requests itself reads REQUESTS_CA_BUNDLE; these two are what uv and pip read.
    if bundle := os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT"):
        made.verify = bundle
    return made


def _limit(reply: Response, *_: object, **options: object) -> None:
    """Refuse a page that is larger than any index needs, unpacked: servers may compress."""
    whole = reply.iter_content

    def pieces(*arguments: Any) -> Iterator[bytes]:  # noqa: ANN401 - those of requests
        links = 0
        for piece in limits.bounded(whole(*arguments), limits.PAGE, redact(reply.url)):
            links += piece.count(b"<a")
            if links > limits.LINKS:
                raise OSError(
                    errno.EFBIG, "more links than the limit", redact(reply.url)
                )
            yield piece

    if not options.get("stream"):  # who streams, counts
        reply.iter_content = pieces  # type: ignore[method-assign, assignment]


def content_lengths(urls: Sequence[str], mirror: str | None = None) -> dict[str, int]:
    """Return the bytes of each URL, from HEAD requests; a mirror's login is for its host alone."""
    if not urls:
        return {}
    with session() as shared:
        pairs = [(shared, url, login_for(url, mirror)) for url in urls]
        found = in_threads(
            lambda given: content_length(*given), pairs, PARALLEL_REQUESTS
        )
    return dict(zip(urls, found, strict=True))


def stated_length(reply: Response) -> int | None:
    """Return the size that a server states; None where it is no number."""
    stated = reply.headers.get("Content-Length", "")
    return int(stated) if re.fullmatch("[0-9]{1,15}", stated) else None


def content_length(
    shared: Session, url: str, auth: tuple[str, str] | None = None
) -> int:
    """Return the bytes of a URL, from a HEAD request; ToolError if the server does not say."""
    import requests  # noqa: PLC0415

    try:
        # Without this header a server may compress, and state the compressed size.
        plain = {"Accept-Encoding": "identity"}
        reply = shared.head(
            url, headers=plain, auth=auth, timeout=TIMEOUT, allow_redirects=True
        )
        reply.raise_for_status()
        if (length := stated_length(reply)) is not None:
            return length
        raise KeyError("Content-Length")  # noqa: TRY301 - as if it were absent
    except (requests.RequestException, KeyError) as error:
        raise ToolError.of(
            "no-size", str(error), file=url.rpartition("/")[2]
        ) from error


def login_for(url: str, mirror: str | None) -> tuple[str, str] | None:
    """Return the user name and password of a mirror for a file on the same host."""
    # An index may link to files on any host, and must not learn to send the login there.
    index = urlsplit(mirror or "")
    if index.username is None or urlsplit(url).hostname != index.hostname:
        return None
    return unquote(index.username), unquote(index.password or "")
