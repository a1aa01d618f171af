"""Hostile indexes, mirrors, servers and wheelhouses: bounded, said with words, never trusted."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.server
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.parallel_fetch import fetch_all
from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.simple_index import embedded_metadata
from provision.core import limits, network
from provision.core.errors import ToolError
from provision.lockfile.pip import PIP_LAYER
from tests.attacks.scene import change, within
from tests.lab import Silent
from tests.small import TARGET, listening, make_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from tests.attacks.scene import Scene

pytestmark = pytest.mark.machine
HTML = {"Content-Type": "text/html"}
JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
LIMITED = within("ulimit -v 1500000")
Headers = dict[str, str]
Body = bytes | Callable[[], Iterator[bytes]]


@dataclass
class Hostile:
    """A server with one page, whose answer is chosen by a test."""

    body: Body = b""
    headers: Headers = field(default_factory=dict)
    url: str = ""
    sent: int = 0

    @property
    def pieces(self) -> Iterator[bytes]:
        return iter([self.body]) if isinstance(self.body, bytes) else self.body()


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    made = Hostile()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                self.send_response(302 if "Location" in made.headers else 200)
                for name, value in made.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                for piece in made.pieces:
                    self.wfile.write(piece)
                    made.sent += len(piece)

    with listening(Handler) as made.url:
        yield made


def endless() -> Iterator[bytes]:
    while True:
        yield b"<a href='x'>x</a>" * 4096


DEEP = 200_000
LINK = b'<a href="/f/beta-1.0-py3-none-any.whl">beta</a>\n'
PAGES: dict[str, tuple[Body, Headers]] = {
    "300,000 links": (LINK * 300_000, HTML),
    "a page without an end": (endless, HTML),
    "no JSON": (b"{", JSON),
    "deep JSON": (b"[" * DEEP, JSON),
    "deep objects": (b'{"a":' * DEEP, JSON),
    "other JSON": (b"[1, 2]", JSON),
    "wrong types": (b'{"meta": {"api-version": 7}, "files": {"x": [null]}}', JSON),
    "another version": (b'{"meta": {"api-version": "9.0"}, "files": []}', JSON),
    "a wrong length": (b"short", HTML | {"Content-Length": "x"}),
    "a negative length": (b"short", HTML | {"Content-Length": "-5"}),
    "a length that lies": (b"short", HTML | {"Content-Length": "500000"}),
    "no text": (bytes(range(256)) * 40, HTML),
    "a wrong encoding": (b"<a>", {"Content-Type": "text/html; charset=nope"}),
    "no gzip": (b"plain", HTML | {"Content-Encoding": "gzip"}),
    "broken markup": (b"<![x[<!DOCTYPE <!-- <a href='\xff" * 50, HTML),
    "deep markup": (b"<b>" * 100_000, HTML),
    "a redirect to a file": (b"", HTML | {"Location": "file:///etc/passwd"}),
    "a redirect to itself": (b"", HTML | {"Location": "/vendor/beta/"}),
}
BOMB = gzip.compress(b"<a>" * 3_000_000) * 220  # each part unpacks to 9 MB
PAGES["a page that unpacks to 2 GB"] = (BOMB, HTML | {"Content-Encoding": "gzip"})


@pytest.mark.attack(
    "an index answers with garbage, without an end, or packed", promise="an error"
)
@pytest.mark.parametrize("page", PAGES)
def test_a_hostile_index(scene: Scene, hostile: Hostile, page: str) -> None:
    hostile.body, hostile.headers = PAGES[page]
    catalog = scene.lab.project.catalog / "vendor.json"
    change(catalog, url=f"{hostile.url}/vendor/")
    before = catalog.read_bytes()
    ended = scene.start("update", "vendor", prefix=LIMITED)
    ended.check(page)
    assert ended.code in {0, 1, 3}, ended.said
    assert catalog.read_bytes() == before
    assert hostile.sent < 3 * limits.PAGE + 50_000_000


def fetched(hostile: Hostile, folder: Path) -> tuple[str, list[Path]]:
    """Fetch 1,000 bytes of a lock; return why they are missing, and the files that stay."""
    digest = hashlib.sha256(b"x" * 1000).hexdigest()
    name = "a-1.0-py3-none-any.whl"
    item = WantedFile(name, digest, 1000, f"{hostile.url}/a", None)
    (missing,) = fetch_all([item], folder / "out", (), Silent())
    return missing.why, [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.attack(
    "a server sends more than the lock says, or states a wrong length",
    promise="it is cut off there, and nothing stays",
)
@pytest.mark.parametrize("length", [None, "100", "x", "-1", "9" * 4000])
def test_a_download_without_an_end(
    hostile: Hostile, tmp_path: Path, length: str | None
) -> None:
    hostile.body = endless
    if length is not None:
        hostile.headers = {"Content-Length": length}
    why, files = fetched(hostile, tmp_path)
    assert why
    assert sum(path.stat().st_size for path in files) <= 1000
    assert hostile.sent < 50_000_000


@pytest.mark.attack(
    "another file than the locked one is served", promise="it is not kept"
)
def test_another_file(hostile: Hostile, tmp_path: Path) -> None:
    hostile.body = b"y" * 1000
    why, files = fetched(hostile, tmp_path)
    assert "another file" in why
    assert [path.name for path in files] == [".lock"]


@pytest.mark.attack("a server states an absurd size", promise="it is not believed")
@pytest.mark.parametrize("length", ["-5", "x", "²", "9" * 5000, "1e9"])
def test_absurd_sizes(hostile: Hostile, length: str) -> None:
    hostile.headers = {"Content-Length": length}
    with pytest.raises(ToolError, match="no size known"):
        network.content_lengths([f"{hostile.url}/a.whl"])


def bomb(path: Path, like: Path) -> None:
    """Write a wheel of the same name, version and size that unpacks to 300 MB of zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with zipfile.ZipFile(like) as real:
            for member in real.infolist():
                archive.writestr(member, real.read(member))
        with archive.open("beta_data.bin", "w") as stream:
            for _ in range(300):
                stream.write(b"\0" * 1_000_000)


@pytest.mark.attack(
    "a wheelhouse holds a bomb under a locked name",
    promise="hashed first, never unpacked",
)
@pytest.mark.parametrize("size", ["kept", "unknown", "other"])
def test_a_bomb_in_a_wheelhouse(scene: Scene, tmp_path: Path, size: str) -> None:
    house = tmp_path / "house"
    house.mkdir()
    _, beta = scene.lab.wheels
    fresh = scene.lab.wheel("alpha", "6.0")
    scene.lab.relock(fresh, beta)
    shutil.copy(fresh, house)
    bomb(house / beta.name, beta)
    lock = scene.lab.project.lock(TARGET) / PIP_LAYER
    stated = f"# size: {beta.stat().st_size}\n"
    shown = {
        "kept": f"# size: {(house / beta.name).stat().st_size}\n",
        "unknown": "# via: x\n",
        "other": stated,
    }[size]
    text = lock.read_text(encoding="utf-8")
    lock.write_text(text.replace(stated, shown), encoding="utf-8")
    ended = scene.start("build", TARGET, "--wheelhouse", str(house), "--no-smoke")
    ended.check(size)
    assert not list((scene.root.parent / "cache").rglob("beta_data.bin"))


@pytest.mark.attack(
    "a wheel's METADATA unpacks without an end", promise="refused at its limit"
)
def test_metadata_that_unpacks_to_a_gigabyte(tmp_path: Path) -> None:
    path = tmp_path / "a-1.0-py3-none-any.whl"
    member = "a-1.0.dist-info/METADATA"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, b"Name: a\n" * 10_000_000)
    with pytest.raises(ToolError, match="is not a wheel") as caught:
        embedded_metadata(path)
    assert "limit" in caught.value.evidence
    # And one whose table of contents states a small size.
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ToolError, match="is not a wheel"):
        embedded_metadata(path)


@pytest.mark.attack(
    "files of 20 MB in place of a lock, spec, catalog, report", promise="refused"
)
@pytest.mark.parametrize("place", ["spec", "lock", "catalog", "report"])
def test_files_that_are_too_large(scene: Scene, place: str) -> None:
    project = scene.lab.project
    path = {
        "spec": project.specs / f"{TARGET}.toml",
        "lock": project.lock(TARGET) / PIP_LAYER,
        "catalog": project.catalog / "vendor.json",
        "report": max((scene.lab.home / "reports").iterdir()),
    }[place]
    with path.open("ab") as stream:
        stream.write(b"# " + b"x" * 20_000_000 + b"\n")
    verb = {"report": "report", "catalog": "lock --check"}.get(place, "verify")
    ended = scene.call(*scene.words(verb))
    ended.check(place)
    # A damaged report is left out, and the others are shown.
    assert (ended.code == 0) == (place == "report"), ended.said
    assert re.search("limit|unreadable|cannot read|no usable", ended.said)


@pytest.mark.attack(
    "a wheel writes outside of the environment", promise="it is not installed"
)
@pytest.mark.parametrize(
    "member",
    [
        "../../../../../escaped.py",
        "{root}/escaped.py",
        "alpha/../../../../../../escaped.py",
    ],
)
def test_attack_wheel_members(scene: Scene, member: str) -> None:
    _, beta = scene.lab.wheels
    outside = member.format(root=scene.root)
    files = {"alpha.py": "version = '7.0'\n", outside: "bad = 1\n"}
    evil = make_wheel(scene.lab.index.root / "default", "alpha", "7.0", files)
    scene.lab.relock(evil, beta)
    scene.start("build", TARGET).check(member)
    assert not list(scene.root.parent.rglob("escaped.py"))
    assert scene.lab.says("import alpha; print(alpha.version)") in {"2.0", "7.0"}
