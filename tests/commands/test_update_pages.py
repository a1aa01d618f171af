"""``update`` against pages in the shapes of the vendors' indexes, served by two real servers.

The page of a name is asked for from one, which redirects to another; the files lie on a third
address, as the vendors' buckets do. tests/catalog/pages has the pages.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.commands.update import update
from provision.core.process import run
from provision.core.project import Project
from provision.spec.model import Pip, Target
from tests.commands.answering import PAGE, Answering, served
from tests.lab import Silent
from tests.small import make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.commands.update import RefreshResult

pytestmark = pytest.mark.machine
PAGES = Path(__file__).parents[1] / "catalog" / "pages"
KINDS = {".html": "text/html", ".json": PAGE}
REQUIRES = ("filelock", 'sympy>=1.13; python_version >= "3.9"')


@dataclass
class Vendor:
    """An index whose names are known, and a file host beside it.

    Attributes:
        pages: Distribution -> content type and text.
        files: Path on the file host -> content.
        asked: Method and path of each request; GET of a part is ``PART``.
        gone: Paths of files that answer 403.
    """

    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    gone: tuple[str, ...] = ()
    url: str = ""

    def record(self, page: Path, folder: Path) -> None:
        """Serve a recorded page, with a small wheel for each of its files."""
        lines = []
        text = page.read_text()
        for block in re.split(r"(?<=</a>)|(?=\{\"filename\")", text):
            found = re.search(r'>([^<>]+\.whl)<|"filename": "([^"]+)"', block)
            lines.append(
                self._filled(block, (found[1] or found[2]) if found else "", folder)
            )
        self.pages["torch"] = (
            KINDS[page.suffix],
            "".join(lines).replace("{host}", self.url),
        )

    def _filled(self, block: str, filename: str, folder: Path) -> str:
        if not filename:
            return block
        name, version, *_ = filename.split("-")
        made = make_wheel(folder, name, version, {"torch.py": filename}, REQUIRES)
        with zipfile.ZipFile(made) as archive:
            metadata = archive.read(f"{name}-{version}.dist-info/METADATA")
        path = re.search(r'(?:href="|"url": ")(?:\{host\})?([^"#]+)', block)
        assert path
        self.files[unquote(path[1])] = made.read_bytes()
        if "metadata" in block:
            self.files[f"{unquote(path[1])}.metadata"] = metadata
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        return block.replace("{sha256}", digest).replace(
            "{metadata}", hashlib.sha256(metadata).hexdigest()
        )

    def whole(self) -> list[str]:
        """Return the wheels that were downloaded from beginning to end."""
        whole = set()
        for method, path in self.asked:
            if method == "GET" and path.endswith(".whl"):
                whole.add(path.rpartition("/")[2])
        return sorted(whole)


class Handler(Answering):
    shop: Vendor

    def do_GET(self) -> None:  # noqa: N802 - the name is the library's
        path = unquote(self.path)
        ranged = self.headers.get("Range", "")
        self.shop.asked.append(("PART" if ranged else self.command, path))
        if path.startswith("/whl/pages/"):
            kind, text = self.shop.pages.get(
                path.split("/")[3], ("application/xml", "")
            )
            return self.answer(200 if text else 403, text.encode(), kind)
        if path in self.shop.files:
            return self.answer(301, headers={"Location": f"/host{self.path}"})
        if path.startswith("/simple/"):
            page = self.path.replace("/simple/", "/whl/pages/")
            return self.answer(301, headers={"Location": page})
        content = self.shop.files.get(path.removeprefix("/host"))
        if content is None or path in self.shop.gone:
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        if ranged:
            first, last = map(int, ranged.removeprefix("bytes=").split("-"))
            return self.answer(206, content[first : last + 1])
        return self.answer(200, content)


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    monkeypatch.delenv("PIP_CERT", raising=False)
    shop = Vendor()
    with served(Handler, shop) as shop.url:
        yield shop


def refresh(
    vendor: Vendor, root: Path, *names: str
) -> tuple[RefreshResult, dict[str, Wheel]]:
    project = Project(root)
    project.catalog.mkdir(parents=True, exist_ok=True)
    first: dict[str, Any] = {}
    if not (project.catalog / "vendor.json").exists():
        first = {"only": ["vendor"], "url": f"{vendor.url}/simple"}
    pip = Pip(
        cutoff=dt.date(2026, 11, 1),
        requirements=("torch",),
        index={"vendor": names or ("torch",)},
    )
    targets = [
        Target(
            name=f"t-{platform}",
            summary="s",
            accelerator="cpu",
            platform=platform,
            python="3.11",
            pip=pip,
        )
        for platform in ("linux-64", "win-64")
    ]
    (result,) = update(project, targets, Silent(), run, **first)
    if not (project.catalog / "vendor.json").exists():
        return result, {}  # it has no wheel
    found = load_snapshot(project.catalog, "vendor", Index).files
    return result, {wheel.filename: wheel for wheel in found}


EXPECTED = {  # page -> files that are taken, and those that have to be downloaded for it
    "pytorch-cpu.html": (
        [
            "torch-2.8.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
            "torch-2.9.0+cpu-cp311-cp311-win_amd64.whl",
        ],
        [],
    ),
    "pytorch-cu128.html": (
        [
            "torch-2.8.0+cu128-cp311-cp311-manylinux_2_28_x86_64.whl",
            "torch-2.9.1+cu128-cp311-cp311-win_amd64.whl",
        ],
        [],
    ),
    "pytorch-cu130.json": (
        ["torch-2.9.1+cu130-cp311-cp311-manylinux_2_28_x86_64.whl"],
        [],
    ),
    "pytorch-xpu.html": (
        [
            "torch-2.9.1+xpu-cp311-cp311-linux_x86_64.whl",
            "torch-2.13.0+xpu-cp311-cp311-linux_x86_64.whl",
        ],
        ["torch-2.13.0+xpu-cp311-cp311-linux_x86_64.whl"],
    ),
    "intel-xpu.html": (
        [
            "torch-2.1.0a0+cxx11.abi-cp311-cp311-linux_x86_64.whl",
            "torch-2.1.0a0+cxx11.abi-cp311-cp311-win_amd64.whl",
        ],
        [
            "torch-2.1.0a0+cxx11.abi-cp311-cp311-linux_x86_64.whl",
            "torch-2.1.0a0+cxx11.abi-cp311-cp311-win_amd64.whl",
        ],
    ),
}


@pytest.mark.parametrize("page", EXPECTED)
def test_each_shape_gives_complete_entries_and_downloads_only_what_has_no_hash(
    vendor: Vendor, tmp_path: Path, page: str
) -> None:
    vendor.record(PAGES / page, tmp_path / "wheels")
    result, found = refresh(vendor, tmp_path)
    taken, downloaded = EXPECTED[page]
    assert sorted(found) == sorted(taken)
    assert [str(e) for e in result.errors] == []
    for wheel in found.values():
        content = vendor.files[wheel.url.removeprefix(vendor.url).replace("%2B", "+")]
        assert wheel.sha256 == hashlib.sha256(content).hexdigest()
        assert wheel.size == len(content)
        assert wheel.requires_dist == REQUIRES
        assert wheel.confirmed is True
        assert wheel.record
    assert vendor.whole() == sorted(downloaded)
    vendor.asked.clear()
    again, _ = refresh(vendor, tmp_path)
    assert again.added == []
    assert again.completed == []
    assert again.bad is False
    for _, path in vendor.asked:
        assert not path.endswith(".whl")


def test_a_wheel_that_vanished_from_its_host_is_added_from_its_page_alone(
    vendor: Vendor, tmp_path: Path
) -> None:
    """Its hash serves whoever has the file; only its size and RECORD stay open."""
    vendor.record(PAGES / "pytorch-cpu.html", tmp_path / "wheels")
    vendor.gone = (
        "/host/whl/cpu/torch-2.8.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
    )
    path = "/whl/cpu/torch-2.8.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    result, found = refresh(vendor, tmp_path)
    wheel = found[path.rpartition("/")[2]]
    assert wheel.size is None
    assert wheel.record is None
    assert wheel.sha256 == hashlib.sha256(vendor.files[path]).hexdigest()
    # Once it is there again, the entry is completed.
    vendor.gone = ()
    result, found = refresh(vendor, tmp_path)
    assert result.completed == [wheel.filename]
    assert found[wheel.filename].size == len(vendor.files[path])


def test_what_is_no_page_of_an_index_loses_nothing(
    vendor: Vendor, tmp_path: Path
) -> None:
    vendor.record(PAGES / "pytorch-cpu.html", tmp_path / "wheels")
    _, before = refresh(vendor, tmp_path)
    for kind, text in (
        ("text/html", "{}"),
        (PAGE, "<html></html>"),
        (PAGE, '{"meta": {"api-version": "2.0"}, "files": []}'),
        ("application/pdf", "<a href='x'>torch-9-py3-none-any.whl</a>"),
    ):
        vendor.pages["torch"] = kind, text
        result, after = refresh(vendor, tmp_path)
        assert after == before
        assert result.bad or sorted(result.vanished) == sorted(before)
