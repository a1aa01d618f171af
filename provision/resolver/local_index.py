"""A package index on 127.0.0.1 that serves exactly the wheels that the catalog and the spec allow.

PEP 691 pages and PEP 658 metadata are all that a resolver reads (uv reads none from ``file://``),
so locking needs no vendor's server; wheels are redirected to it. Each index serves only the names
that the spec assigns to it, and comes before the default index with ``--index-strategy
first-index``: an assigned name comes from no other index, any other gets 404 here.
"""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from provision.catalog.snapshot import Wheel
from provision.core.process import Completed, Run

Indexes = Mapping[str, Sequence[Wheel]]  # the wheels of each, by its name
_PAGE = "application/vnd.pypi.simple.v1+json"
# A snapshot is its own cut-off date, but a resolver with one skips files without an upload time.
_UPLOADED = "1970-01-01T00:00:00Z"


class Response(NamedTuple):
    """The response of the index to one request."""

    status: int
    content_type: str = "text/plain"
    body: bytes = b""
    location: str | None = None


def core_metadata(wheel: Wheel) -> str:
    """Return the fields of a wheel's core metadata that a resolver reads."""
    lines = ["Metadata-Version: 2.1", f"Name: {wheel.name}"]
    lines.append(f"Version: {wheel.version}")
    if wheel.requires_python:
        lines.append(f"Requires-Python: {wheel.requires_python}")
    for requirement in wheel.requires_dist or ():
        lines.append(f"Requires-Dist: {requirement}")
    return "\n".join(lines) + "\n"


def project_page(name: str, wheels: Sequence[Wheel]) -> dict[str, object]:
    """Return the PEP 691 page of a distribution; the URLs of its files are relative to the page."""
    return {
        "meta": {"api-version": "1.1"},
        "name": name,
        "versions": sorted({wheel.version for wheel in wheels}),
        "files": [_page_entry(wheel) for wheel in wheels],
    }


def _page_entry(wheel: Wheel) -> dict[str, object]:
    entry = {
        "filename": wheel.served_name,
        "url": f"../files/{quote(wheel.served_name)}",
        "hashes": {"sha256": wheel.sha256},
        "upload-time": _UPLOADED,
        "core-metadata": True,
    }
    if wheel.size:
        entry["size"] = wheel.size
    if wheel.requires_python:
        entry["requires-python"] = wheel.requires_python
    return entry


def respond(indexes: Indexes, path: str, fallback: str | None = None) -> Response:
    """Respond to ``/…/<index>/<name>/``, or the fallback's page, or ``/…/<index>/files/<file>``."""
    # A path has two or three parts, by kind: (index, "files", file) or (…, index, name).
    path = unquote(path).strip("/")
    *_, index, place, leaf = ["", "", *path.split("/")]
    if place == "files":
        return _file(indexes.get(index, ()), leaf)
    wheels = [wheel for wheel in indexes.get(place, ()) if wheel.name == leaf]
    if wheels:
        page = json.dumps(project_page(leaf, wheels))
        return Response(200, _PAGE, page.encode())
    if fallback and place in indexes:
        return Response(302, location=f"{fallback.rstrip('/')}/{leaf}/")
    return Response(404)


def _file(wheels: Sequence[Wheel], leaf: str) -> Response:
    for wheel in wheels:
        if leaf == f"{wheel.served_name}.metadata":
            return Response(200, "text/plain", core_metadata(wheel).encode())
        if leaf == wheel.served_name:
            return Response(302, location=wheel.url)
    return Response(404)


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a resolver closes connections in the middle of a response."""


def with_names(run: Run, indexes: Mapping[str, str]) -> Run:
    """Return a way to run a tool that calls indexes by name where the tool names their addresses.

    Those mean nothing to a person, and are gone when they are read.
    """

    def named(*arguments: Any, **options: Any) -> Completed:  # noqa: ANN401 - those of run
        done = run(*arguments, **options)
        stderr = done.stderr
        for index, url in indexes.items():
            stderr = stderr.replace(url, f"index {index}: ")
        return replace(done, stderr=stderr)

    return named


@contextlib.contextmanager
def serve(
    indexes: Indexes, digest: str, fallback: str | None = None
) -> Iterator[dict[str, str]]:
    """Serve indexes while the context lasts, and yield the URL of each."""
    # The digest is part of every URL: resolvers cache pages by URL, and a later server may get the
    # same port; and other users of this machine could ask for the fallback, which may have a login.

    class Handler(http.server.BaseHTTPRequestHandler):
        # With HTTP/1.0, the default, each page would take its own connection.
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes; Nagle's algorithm would delay the second by 40 ms.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            response = Response(404)
            if self.path.startswith(f"/{digest[:16]}/"):
                response = respond(indexes, self.path, fallback)
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            if response.location:
                self.send_header("Location", response.location)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing: standard error belongs to the console."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        # shutdown() waits for the poll interval, which is half a second by default.
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            root = f"http://127.0.0.1:{server.server_port}/{digest[:16]}"
            yield {index: f"{root}/{index}/" for index in indexes}
        finally:
            server.shutdown()
