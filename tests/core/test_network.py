from __future__ import annotations

import http.server
from typing import TYPE_CHECKING

import pytest

from provision.core import network
from provision.core.errors import ToolError, UsageError
from tests.small import listening

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[str]:
    failures = [503, 503]  # of a server that starts

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if self.path == "/late.whl" and failures:
                self.send_response(failures.pop())
            elif self.path == "/own.whl" and self.headers["Authorization"] is None:
                self.send_response(401)
            elif self.path == "/moved.whl":
                self.send_response(302)
                self.send_header("Location", "/a.whl")
            else:
                self.send_response(403 if self.path == "/secret.whl" else 200)
                if self.path in {"/a.whl", "/own.whl", "/late.whl"}:
                    self.send_header("Content-Length", "12345")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with listening(Handler) as address:
        yield address


@pytest.mark.machine
def test_sizes_are_asked_for_without_downloading(server: str) -> None:
    urls = [f"{server}/a.whl", f"{server}/moved.whl"]
    assert network.content_lengths(urls) == dict.fromkeys(urls, 12345)
    assert network.content_lengths([]) == {}


@pytest.mark.machine
def test_a_size_that_nobody_tells_is_an_error_that_names_the_file(server: str) -> None:
    for name in ("secret.whl", "silent.whl"):
        with pytest.raises(ToolError, match=f"no size known for {name}"):
            network.content_lengths([f"{server}/{name}"])


@pytest.mark.machine
def test_a_mirrors_password_is_used_on_its_own_host_only(server: str) -> None:
    url = f"{server}/own.whl"
    mirror = server.replace("http://", "http://me:s%40cret@")
    assert network.content_lengths([url], f"{mirror}/simple/") == {url: 12345}
    with pytest.raises(ToolError):
        network.content_lengths([url], "https://me:secret@elsewhere.example/simple/")


@pytest.mark.machine
def test_a_request_is_repeated_as_often_as_uv_repeats_its_own(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server}/late.whl"
    for text in ("few", "\u0663"):
        monkeypatch.setenv("UV_HTTP_RETRIES", text)
        with pytest.raises(UsageError, match=f"UV_HTTP_RETRIES is '{text}'"):
            network.content_lengths([url])
    monkeypatch.setenv("UV_HTTP_RETRIES", "")
    (adapter, _) = network.session().adapters.values()
    assert adapter.max_retries.total == 3
    assert not adapter.max_retries.respect_retry_after_header
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(ToolError):
        network.content_lengths([url])
    monkeypatch.setenv("UV_HTTP_RETRIES", "1")
    assert network.content_lengths([url]) == {url: 12345}
