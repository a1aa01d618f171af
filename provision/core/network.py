"""HTTP sessions, file sizes, downloads at once; not the wheels of a build, which uv fetches."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from provision.core import limits
from provision.core.errors import ToolError, UsageError
from provision.core.interruption import in_threads
from provision.core.privacy import redact

TIMEOUT = (10, 60)  # seconds to connect, seconds of silence
# How many at once, here and in provision.artifacts: small requests wait for the server, downloads
# share the bandwidth, and public indexes throttle clients that open dozens of connections.
PARALLEL_REQUESTS = 16
PARALLEL_DOWNLOADS = 8
_RETRIES = "3"  # as uv without its variable


def _retries() -> int:
    """Return how often a request is repeated; UsageError where the variable is no number."""
    text = os.environ.get("UV_HTTP_RETRIES") or _RETRIES
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(
            f"UV_HTTP_RETRIES is {text!r}, which is no number of retries",
            remedy=f"set it to a number such as {_RETRIES}, or unset it",
        )
    return int(text)


def session() -> requests.Session:
    """Return an HTTP session that retries temporary failures and uses the user's CA bundle.

    Raises UsageError where ``UV_HTTP_RETRIES`` is no number.
    """
    shared = requests.Session()
    shared.hooks["response"].append(_limit)
    # raise_on_status: the caller reports the last response, which MaxRetryError would hide.
    retry = Retry(
        total=_retries(),
        backoff_factor=0.3,
        status_forcelist=(429, 502, 503, 504),
        raise_on_status=False,
        # A server may ask for hours, and would be waited for without a word.
        respect_retry_after_header=False,
    )
    for scheme in ("https://", "http://"):
        # By default a pool keeps 10 connections and discards those beyond.
        shared.mount(
            scheme, HTTPAdapter(max_retries=retry, pool_maxsize=PARALLEL_REQUESTS)
        )
    # requests itself reads REQUESTS_CA_BUNDLE; these two are what uv and pip read.
    if bundle := os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT"):
        shared.verify = bundle
    return shared


def _limit(reply: requests.Response, *_: object, **options: object) -> None:
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
    with session() as shared:
        lengths = in_threads(
            lambda url: content_length(shared, url, login_for(url, mirror)),
            urls,
            PARALLEL_REQUESTS,
        )
    return dict(zip(urls, lengths, strict=True))


def stated_length(reply: requests.Response) -> int | None:
    """Return the size that a server states; None where it is no number."""
    stated = reply.headers.get("Content-Length", "")
    return int(stated) if re.fullmatch("[0-9]{1,15}", stated) else None


def content_length(
    shared: requests.Session, url: str, auth: tuple[str, str] | None = None
) -> int:
    """Return the bytes of a URL, from a HEAD request; ToolError if the server does not say."""
    reason = "Content-Length"
    try:
        # Without this header a server may compress, and state the compressed size.
        plain = {"Accept-Encoding": "identity"}
        reply = shared.head(
            url, headers=plain, auth=auth, timeout=TIMEOUT, allow_redirects=True
        )
        reply.raise_for_status()
        if (length := stated_length(reply)) is not None:
            return length
    except requests.RequestException as error:
        reason = str(error)
    raise ToolError(
        f"no size known for {url.rpartition('/')[2]}",
        evidence=reason,
        cause="neither the index nor the file's server states it",
        remedy="try again, or set pip's index-url to a mirror that states sizes",
    )


def login_for(url: str, mirror: str | None) -> tuple[str, str] | None:
    """Return the user name and password of a mirror for a file on the same host."""
    # An index may link to files on any host, and must not learn to send the login there.
    index = urlsplit(mirror or "")
    if index.username is None or urlsplit(url).hostname != index.hostname:
        return None
    return unquote(index.username), unquote(index.password or "")
