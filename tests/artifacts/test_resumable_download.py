"""A transfer that goes on where an earlier one ended, also one that had everything."""

from __future__ import annotations

import http.server
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.resumable_download import download
from provision.core import network
from tests.lab import Silent
from tests.small import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.machine
CONTENT = b"0123456789" * 1000
TAG = '"one"'
STARTS: list[int] = []  # at which byte each request began


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
            self.wfile.write(CONTENT[start:])

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
