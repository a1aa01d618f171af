"""Generated packages on an index on loopback, and projects that require them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import json
import shutil
import threading
from typing import TYPE_CHECKING

from provision.core.project import Project
from tests.small import CATALOG, make_wheel, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_JSON = "application/vnd.pypi.simple.v1+json"


def name_of(number: int) -> str:
    """Return the name of a generated package."""
    return f"generated-{number:04d}"


def make_packages(folder: Path, count: int) -> None:
    """Write a simple index (PEP 691, 700 and 658) of packages that form a tree of requirements.

    Package n requires packages 2n and 2n + 1, so that the first requires all, in a few levels.
    """
    for number in range(1, count + 1):
        name = name_of(number)
        page = folder / "simple" / name
        module = name.replace("-", "_")
        needs = [name_of(n) for n in (2 * number, 2 * number + 1) if n <= count]
        wheel = make_wheel(page, module, "1.0", {f"{module}.py": ""}, requires=needs)
        text = metadata(module, "1.0", needs)
        wheel.with_name(f"{wheel.name}.metadata").write_text(text, encoding="utf-8")
        (page / "index.html").write_text(
            json.dumps(_page(name, wheel)), encoding="utf-8"
        )


def _page(name: str, wheel: Path) -> dict[str, object]:
    data = wheel.read_bytes()
    file = {
        "filename": wheel.name,
        "url": wheel.name,
        "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
        "size": len(data),
        "upload-time": "2026-01-01T00:00:00Z",
        "core-metadata": True,
    }
    meta = {"api-version": "1.1"}
    return {"meta": meta, "name": name, "versions": ["1.0"], "files": [file]}


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serve a folder; its index pages are JSON under the name that the handler looks for."""

    protocol_version = "HTTP/1.1"
    # As in provision.resolver.local_index: the second write of a response would wait 40 ms.
    disable_nagle_algorithm = True

    def guess_type(self, path: object) -> str:
        """Return the content type of a file."""
        return _JSON if str(path).endswith(".html") else "application/octet-stream"

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve an index until the block ends; give its address."""
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple/"
        finally:
            server.shutdown()


def make_project(root: Path, targets: int, requirement: str) -> Project:
    """Make a project of targets that all require one package."""
    project = Project(root)
    project.catalog.mkdir(parents=True)
    for facts in ("devices.toml", "drivers.toml"):
        shutil.copy(CATALOG / facts, project.catalog)
    for number in range(targets):
        (project.specs / f"target-{number:02d}.toml").write_text(
            f"""summary = "Generated"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 2026-11-01
requirements = ["{requirement}"]
""",
            encoding="utf-8",
        )
    return project
