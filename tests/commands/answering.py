"""Indexes on loopback that answer as their tests say."""

from __future__ import annotations

import http.server
import json
from typing import TYPE_CHECKING

from tests.small import listening

if TYPE_CHECKING:
    import contextlib

PAGE = "application/vnd.pypi.simple.v1+json"


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers in full, HEAD as GET, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()  # type: ignore[attr-defined]  # each kind of index has its own

    def answer(
        self,
        status: int,
        body: bytes = b"",
        kind: str = "binary/octet-stream",
        headers: dict[str, str] | None = None,
        cut: int | None = None,
    ) -> None:
        """Send a body, of which the connection may break off after some bytes."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        self.close_connection = cut is not None and cut < len(body)

    def page(self, name: str, files: list[dict[str, object]]) -> None:
        """Send the page of a name (PEP 691); 404 without any file."""
        document = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
        if files:
            self.answer(200, json.dumps(document).encode(), PAGE)
        else:
            self.answer(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def served(
    handler: type[Answering], shop: object
) -> contextlib.AbstractContextManager[str]:
    """Serve what a shop has until the block ends; yield its address."""
    kind = type("Handler", (handler,), {"shop": shop})
    return listening(kind)
