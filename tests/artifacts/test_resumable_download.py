"""A transfer that goes on where an earlier one ended, also one that had everything."""

from __future__ import annotations

import http.server
from typing import TYPE_CHECKING

import pytest

from provision.artifacts import resumable_download
from provision.artifacts.resumable_download import download
from provision.core import network
from provision.core.errors import ToolError
from tests.lab import Silent
from tests.small import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.machine
CONTENT = b"0123456789" * 1000
TAG = '"one"'
STARTS: list[int] = []  # at which byte each request began
BREAKS: list[int] = []  # at which byte the next connection breaks


@pytest.fixture
def url() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            start = 0
            wanted = self.headers.get("Range")
            if wanted and self.headers.get("If-Range") == TAG:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            STARTS.append(start)
            if start >= len(CONTENT):  # RFC 9110, 15.5.17
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            self.send_header("ETag", TAG)
            self.send_header("Content-Length", str(len(CONTENT) - start))
            self.end_headers()
            self.wfile.write(CONTENT[start : BREAKS.pop() if BREAKS else None])

        def log_message(self, *_: object) -> None: ...

    with listening(Handler) as address:
        yield f"{address}/file"


@pytest.mark.parametrize("kept", [0, 4321, len(CONTENT)])
def test_what_an_earlier_process_left_ends_in_the_whole_file(
    tmp_path: Path, url: str, kept: int
) -> None:
    STARTS.clear()
    (tmp_path / "file.part").write_bytes(CONTENT[:kept])
    (tmp_path / "file.etag").write_text(TAG)
    with network.session() as session:
        path = download(session, url, tmp_path, "file", Silent())
    assert path.read_bytes() == CONTENT
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file"]
    assert STARTS[0] == kept


@pytest.mark.parametrize(("tag", "again"), [(TAG, 5000), ('W/"weak"', 0), ("", 0)])
def test_a_connection_that_breaks_is_resumed_where_the_file_is_surely_the_same(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, tag: str, again: int
) -> None:
    monkeypatch.setitem(globals(), "TAG", tag)
    monkeypatch.setattr(resumable_download, "_CHUNK", 1000)
    STARTS.clear()
    BREAKS.append(5000)
    with network.session() as session:
        path = download(session, url, tmp_path, "file", Silent())
    assert path.read_bytes() == CONTENT
    assert [0, again] == STARTS


def test_a_server_that_sends_more_than_is_locked_is_asked_once(
    tmp_path: Path, url: str
) -> None:
    STARTS.clear()
    with network.session() as session, pytest.raises(ToolError, match="file"):
        download(session, url, tmp_path, "file", Silent(), most=len(CONTENT) - 1)
    assert STARTS == [0]
    assert not (tmp_path / "file.part").exists()
