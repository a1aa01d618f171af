"""A project in miniature: real wheels of a few bytes, a real index on loopback, a real lock."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import re
import shutil
import sys
import threading
import time
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from provision.artifacts.wheel_records import wheel_record
from provision.catalog.digest import catalog_digest
from provision.core.platforms import this_platform
from provision.core.project import Project
from provision.lockfile.pip import (
    CONDA_LAYER,
    PIP_LAYER,
    Artifact,
    render_requirements,
    sealed,
)
from provision.lockfile.wheel_record import encoded
from provision.spec.model import Conda, Pip, Target
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from provision.catalog.snapshot import Wheel

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TARGET = "tiny"
CATALOG = Path(__file__).parents[1] / "envs" / "catalog"
# A suite in miniature with the contract of smoke/run.py: it fails where `broken` is installed.
SUITE = """
import importlib.util, json, sys
expect = json.load(open(sys.argv[1]))
broken = importlib.util.find_spec("broken") is not None
check = {"id": "tiny.check", "outcome": "failed" if broken else "passed", "title": "t",
         "stands_for": "s", "seconds": 0.1, "numbers": {"error": {"value": 1e-7, "unit": "1"}},
         "finding": {"code": "op-fails", "level": "error", "symptom": "it fails", "cause": "c",
                     "remedy": "r", "evidence": ["e"]} if broken else None}
json.dump({"schema": 2, "suite": "full" if "--full" in sys.argv else "quick",
           "target": expect["target"], "python": "3", "torch": None, "device": {"name": "toy"},
           "started": "2026-01-01T00:00:00Z", "seconds": 0.1, "checks": [check]},
          open(sys.argv[2], "w"))
if "--junit" in sys.argv:
    open(sys.argv[sys.argv.index("--junit") + 1], "w").write("<testsuite/>")
sys.exit(broken)
"""
# The same, whose check fails in each environment.
# What the small suite has, as a suite declares it.
DECLARED = """
@check("tiny.check", stands_for="s")
def test_tiny(numbers):
    numbers.record("error", 1e-7, "1")
"""
FAILING_SUITE = SUITE.replace('find_spec("broken")', 'find_spec("sys")')


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: dict[str, str],
    requires: Sequence[str] = (),
    *,
    variant: str = "",
) -> Path:
    """Write a pure wheel, the same bytes each time; ``variant`` is its label (PEP 825)."""
    info = f"{name}-{version}.dist-info"
    members = {path: text.encode() for path, text in files.items()}
    members[f"{info}/METADATA"] = metadata(name, version, requires).encode()
    members[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    lines = [f"{info}/RECORD,,\n"]
    for path, data in members.items():
        lines.insert(
            -1, f"{path},{encoded(hashlib.sha256(data).digest())},{len(data)}\n"
        )
    members[f"{info}/RECORD"] = "".join(lines).encode()
    folder.mkdir(parents=True, exist_ok=True)
    label = f"-{variant}" if variant else ""
    wheel = folder / f"{name}-{version}-py3-none-any{label}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in members.items():
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), data)
    return wheel


def metadata(name: str, version: str, requires: Sequence[str] = ()) -> str:
    """Return the core metadata of a wheel."""
    lines = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"


def target_of(
    platform: str = "linux-64", conda: Conda | None = None, **pip: object
) -> Target:
    """Return a target for the CPU that is in no file."""
    return Target(
        name="thing",
        summary="a target",
        accelerator="cpu",
        platform=platform,
        python="3.11",
        pip=Pip(**{"cutoff": dt.date(2026, 11, 1), "requirements": ("torch",)} | pip),
        conda=conda,
    )


def contents(folder: Path) -> dict[Path, bytes]:
    """Return what is in each file of a folder, at any depth."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[path] = path.read_bytes()
    return found


@dataclass
class Index:
    """A simple index (PEP 503) over folders: ``<root>/<index>/<wheel>``.

    Attributes:
        asked: Every path that was asked for.
        ranges: First byte and the one after the last, of each request for a part of a file.
        continued: Where each download that went on with an earlier one began, in bytes.
        fault: What goes wrong with files: an HTTP status, ``stall``, ``truncate`` or ``no-ranges``.
        delay: Seconds before each file.
        rate: Bytes per second of each file; 0 for as fast as it goes.
    """

    root: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    continued: list[int] = field(default_factory=list)
    fault: int | str | None = None
    delay: float = 0.0
    rate: float = 0.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that gave up."""


@contextlib.contextmanager
def listening(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer on a free port of 127.0.0.1 until the block ends; yield the address."""
    with _Server(("127.0.0.1", 0), handler) as server:
        # shutdown() waits for the poll interval, which is half a second by default.
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def serve(root: Path) -> Iterator[Index]:
    """Serve wheels on a free port of 127.0.0.1 until the block ends."""
    index = Index(root)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def do_GET(self) -> None:
            index.asked.append(self.path)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                _answer(index, self)

        def do_HEAD(self) -> None:
            path = index.root / self.path.strip("/")
            if path.is_file():
                _send(self, b"", 200, length=path.stat().st_size)
            else:
                _send(self, b"", 404)

    with listening(Handler) as index.url:
        yield index


def _answer(index: Index, request: BaseHTTPRequestHandler) -> None:
    path = index.root / request.path.strip("/")
    if path.is_file():
        _send_file(index, request, path.read_bytes())
        return
    folder, name = path.parent, path.name
    stem = name.replace("-", "_")
    wheels = sorted(
        (*folder.glob(f"{stem}-*.whl"), *folder.glob(f"{stem}-*-variants.json"))
    )
    links = "".join(f'<a href="{_address(w)}">{w.name}</a>' for w in wheels)
    body = f"<html><body>{links}</body></html>".encode()
    _send(request, body if wheels else b"", 200 if wheels else 404)


def _address(wheel: Path) -> str:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"/{wheel.parent.name}/{wheel.name}#sha256={digest}"


def _send_file(index: Index, request: BaseHTTPRequestHandler, body: bytes) -> None:
    time.sleep(index.delay)
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    if index.fault == "no-ranges":
        asked = None
    start, stop = 0, len(body)
    if asked:
        start = int(asked[1])
        stop = int(asked[2] or len(body) - 1) + 1
    if asked and asked[2]:
        index.ranges.append((start, stop))
    elif start:
        index.continued.append(start)
    body, good = body[start:stop], 206 if asked else 200
    if isinstance(index.fault, int):
        _send(request, b"", index.fault)
    elif index.fault == "stall":
        _send(request, body[:10], good, length=len(body))
        time.sleep(30)
    elif index.fault == "truncate":
        _send(request, body[: len(body) // 2], good, length=len(body))
    else:
        _send(request, body, good, rate=index.rate)


def _send(
    request: BaseHTTPRequestHandler,
    body: bytes,
    status: int,
    length: int | None = None,
    rate: float = 0.0,
) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "text/html")
    request.send_header("ETag", f'"{request.path}"')
    request.send_header("Content-Length", str(len(body) if length is None else length))
    request.end_headers()
    step = 1 << 14 if rate else len(body) or 1
    for start in range(0, len(body), step):
        request.wfile.write(body[start : start + step])
        request.wfile.flush()
        time.sleep(step / rate if rate else 0)


def write_vendor(
    catalog: Path, wheels: Iterable[Wheel], url: str = "https://example.org/"
) -> None:
    """Write the snapshot of an index ``vendor`` with some wheels into a catalog."""
    files = [
        json.loads(wheel.model_dump_json(exclude_defaults=True)) for wheel in wheels
    ]
    document = {"$schema": "index.schema.json", "url": url, "files": files}
    catalog.mkdir(parents=True, exist_ok=True)
    (catalog / "vendor.json").write_text(json.dumps(document), encoding="utf-8")


def make_project(
    root: Path, index: Index, *, platform: str | None = None, extra: str = ""
) -> Project:
    """Make a project with one target, whose ``beta`` comes from the index ``vendor``."""
    project = Project(root)
    (root / "smoke" / "checks").mkdir(parents=True, exist_ok=True)
    (root / "smoke" / "checks" / "test_tiny.py").write_text(DECLARED, encoding="utf-8")
    (root / "smoke" / "run.py").write_text(SUITE, encoding="utf-8")
    (root / "smoke" / "pytest.ini").touch()
    project.catalog.mkdir(parents=True, exist_ok=True)
    for facts in ("devices.toml", "drivers.toml"):
        shutil.copy(CATALOG / facts, project.catalog)
    write_vendor(project.catalog, (), f"{index.url}/vendor/")
    (project.specs / f"{TARGET}.toml").write_text(
        f"""
summary = "A target in miniature"
accelerator = "cpu"
platform = "{platform or this_platform()}"
python = "{PYTHON}"
[pip]
cutoff = 2026-11-01
requirements = ["alpha"]
[pip.index]
vendor = ["beta"]
{extra}
""",
        encoding="utf-8",
    )
    return project


def lock(project: Project, wheels: list[Path]) -> None:
    """Write the lock of the target: these wheels, by the folder that they are served from."""
    target = load_target(project.specs, TARGET)
    header = {
        "spec": target.digest(),
        "catalog": catalog_digest(project.catalog, target),
        "platform": target.platform,
        "python": target.python_version,
    }
    artifacts = [artifact(wheel) for wheel in wheels]
    folder = project.lock(TARGET)
    folder.mkdir(parents=True, exist_ok=True)
    if (conda := folder / CONDA_LAYER).is_file():
        header["conda"] = hashlib.sha256(conda.read_bytes()).hexdigest()
    text = render_requirements(header, artifacts)
    (folder / PIP_LAYER).write_text(text, encoding="utf-8")


def reseal(folder: Path) -> None:
    """Give a lock that was edited the digests that it had if it were written so.

    As whoever means harm would; a file that is not even text is left as it is.
    """
    layer, conda = folder / PIP_LAYER, folder / CONDA_LAYER
    with contextlib.suppress(UnicodeDecodeError, ValueError):
        text = re.sub("# conda: .*\n", "", layer.read_bytes().decode())
        if conda.is_file():
            digest = hashlib.sha256(conda.read_bytes()).hexdigest()
            text = text.replace("\n", f"\n# conda: {digest}\n", 1)
        layer.write_bytes(sealed(text).encode())


def artifact(wheel: Path) -> Artifact:
    name, version, *_ = wheel.name.split("-")
    data = wheel.read_bytes()
    return Artifact(
        name=name,
        version=version,
        filename=wheel.name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        index=wheel.parent.name,
        via=("the spec",),
        record=wheel_record(wheel),
    )
