"""A package index on 127.0.0.1 that offers exactly what the catalog and the spec allow.

A resolver reads PEP 691 pages and PEP 658 metadata from it, so that locking needs no vendor's
server, and a name that a spec assigns to an index has no files but those of the catalog. The
files themselves are not here: their addresses lead to the vendor.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from provision.catalog.snapshot import Wheel

_PAGE = "application/vnd.pypi.simple.v1+json"
# A snapshot is its own cut-off; a resolver that is given a cut-off date asks each file for one.
_UPLOADED = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Response:
    """What the index says to one request."""

    status: int
    content_type: str = "text/plain"
    body: bytes = b""
    location: str | None = None


def core_metadata(wheel: Wheel) -> str:
    """Return the core metadata of a wheel as far as a resolver needs it."""
    lines = ["Metadata-Version: 2.1", f"Name: {wheel.name}", f"Version: {wheel.version}"]
    if wheel.requires_python:
        lines.append(f"Requires-Python: {wheel.requires_python}")
    lines += [f"Requires-Dist: {requirement}" for requirement in wheel.requires_dist or ()]
    return "\n".join(lines) + "\n"


def project_page(name: str, wheels: Sequence[Wheel]) -> dict[str, object]:
    """Return the PEP 691 page of a distribution; its files lie one level above the page."""
    return {
        "meta": {"api-version": "1.1"},
        "name": name,
        "versions": sorted({wheel.version for wheel in wheels}),
        "files": [
            {
                "filename": wheel.filename,
                "url": f"../files/{quote(wheel.filename)}",
                "hashes": {"sha256": wheel.sha256},
                "upload-time": _UPLOADED,
                "core-metadata": True,
            }
            | ({"size": wheel.size} if wheel.size else {})
            | ({"requires-python": wheel.requires_python} if wheel.requires_python else {})
            for wheel in wheels
        ],
    }


def respond(
    indexes: Mapping[str, Sequence[Wheel]], path: str, elsewhere: str | None = None
) -> Response:
    """Return the answer to a request: ``/…/<index>/<name>/`` or ``/…/<index>/files/<file>``.

    Args:
        indexes: Index -> the files that it may offer.
        path: What is asked for.
        elsewhere: Address of an index to which names lead that none of the files has.
    """
    *_, index, place, leaf = ["", "", *unquote(path).strip("/").split("/")]
    if place == "files":
        return _file(indexes.get(index, ()), leaf)
    if wheels := [wheel for wheel in indexes.get(place, ()) if wheel.name == leaf]:
        return Response(200, _PAGE, json.dumps(project_page(leaf, wheels)).encode())
    if elsewhere and place in indexes:
        return Response(302, location=f"{elsewhere.rstrip('/')}/{leaf}/")
    return Response(404)


def _file(wheels: Sequence[Wheel], leaf: str) -> Response:
    for wheel in wheels:
        if leaf == f"{wheel.filename}.metadata":
            return Response(200, "text/plain", core_metadata(wheel).encode())
        if leaf == wheel.filename:
            return Response(302, location=wheel.url)
    return Response(404)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet: a resolver that has enough closes its connections in the middle."""


@contextlib.contextmanager
def serve(
    indexes: Mapping[str, Sequence[Wheel]], digest: str, elsewhere: str | None = None
) -> Iterator[dict[str, str]]:
    """Serve some indexes while the context lasts; give their addresses.

    Args:
        indexes: Index -> the files that it may offer.
        digest: Names this content in every address, because resolvers remember pages and
            metadata by address, and a port may come back with another content.
        elsewhere: Address of an index for all names that the files do not have, for resolvers
            that cannot tell one index from another.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            reply = respond(indexes, self.path, elsewhere)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            if reply.location:
                self.send_header("Location", reply.location)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep quiet: standard error belongs to the console."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            root = f"http://127.0.0.1:{server.server_port}/{digest[:16]}"
            yield {index: f"{root}/{index}/" for index in indexes}
        finally:
            server.shutdown()
