"""``update`` against a real HTTP index on loopback that behaves as badly as real ones do."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from provision.catalog.snapshot import (
    Channel,
    DriverFile,
    DriverSet,
    Index,
    Interpreters,
    Wheel,
    load_snapshot,
)
from provision.commands import update
from provision.commands.renew import renewed
from provision.core.errors import ToolError, UsageError
from provision.core.process import run
from provision.core.project import Project
from provision.spec.model import Conda, Pip, Target
from tests.commands.answering import Answering, served
from tests.lab import Silent
from tests.small import make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.machine


@dataclass
class Vendor:
    """An index and its files; tests change how it answers.

    Attributes:
        pages: Distribution -> the files on its page.
        blobs: Path -> content.
        status: Path -> a status to answer with instead.
        cut: Path -> offsets at which the connection breaks, one per request.
        asked: Path and Range header of each request.
    """

    pages: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    cut: dict[str, list[int]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def offer(self, wheel: Path, *, hashed: bool = True, **more: object) -> str:
        """List a file and serve it; give its SHA-256."""
        content = wheel.read_bytes()
        self.blobs[f"/files/{wheel.name}"] = content
        digest = hashlib.sha256(content).hexdigest()
        entry = {
            "filename": wheel.name,
            "url": f"{self.url}/files/{wheel.name}",
            "hashes": {"sha256": digest} if hashed else {},
        } | more
        name = wheel.name.partition("-")[0]
        kept = [f for f in self.pages.get(name, []) if f["filename"] != wheel.name]
        self.pages[name] = [*kept, entry]
        return digest


class Handler(Answering):
    shop: Vendor

    def do_GET(self) -> None:  # noqa: N802 - the name is the library's
        shop, path = self.shop, self.path
        shop.asked.append((path, self.headers.get("Range")))
        if path in shop.status:
            return self.answer(shop.status[path])
        if path in shop.blobs:
            return self.file(shop.blobs[path])
        name = path.strip("/").rpartition("/")[2]
        return self.page(name, shop.pages.get(name, []))

    def file(self, content: bytes) -> None:
        start = 0
        wanted = self.headers.get("Range", "")
        tag = f'"{hashlib.sha256(content).hexdigest()[:8]}"'
        if wanted and self.headers.get("If-Range") == tag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        cuts = self.shop.cut.get(self.path, [])
        end = cuts.pop(0) - start if cuts else None
        status = 206 if start else 200
        self.answer(status, content[start:], headers={"ETag": tag}, cut=end)


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    shop = Vendor()
    with served(Handler, shop) as shop.url:
        yield shop


@dataclass
class SmallCatalog:
    """A catalog with one index, and what is needed to update it."""

    project: Project
    listener: Silent

    @property
    def path(self) -> Path:
        return self.project.catalog / "vendor.json"

    def snapshot(self, vendor: Vendor, *files: dict[str, object]) -> None:
        document = {
            "$schema": "index.schema.json",
            "url": f"{vendor.url}/simple/",
            "files": files,
        }
        self.path.write_text(json.dumps(document, indent=1))

    def update(self, *dependencies: str, **options: Any) -> update.RefreshResult:  # noqa: ANN401
        pip = Pip(
            cutoff=dt.date(2026, 11, 1),
            requirements=("alpha",),
            index={"vendor": ("alpha",)},
        )
        target = Target(
            name="t",
            summary="s",
            accelerator="cpu",
            platform="win-64",
            python="3.11",
            pip=pip,
            conda=Conda(channels=("vendor",), dependencies=dependencies)
            if dependencies
            else None,
        )
        (result,) = update.update(self.project, [target], self.listener, run, **options)
        return result

    def wheels(self) -> dict[str, Wheel]:
        return {
            wheel.filename: wheel
            for wheel in load_snapshot(self.project.catalog, "vendor", Index).files
        }


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallCatalog:
    monkeypatch.delenv("PIP_CERT", raising=False)
    project = Project(tmp_path)
    project.catalog.mkdir(parents=True)
    return SmallCatalog(project, Silent())


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "alpha", "1.0", {"alpha.py": "x = 1\n" * 50_000})


def entry(wheel: Path, **more: object) -> dict[str, object]:
    return {"filename": wheel.name, "url": f"https://example.org/{wheel.name}"} | more


METADATA = b"Metadata-Version: 2.1\nName: alpha\nVersion: 1.0\nRequires-Dist: beta>=2\n"


def test_a_new_file_is_added_without_downloading_it(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path
) -> None:
    catalog.snapshot(vendor)
    listed = {"sha256": hashlib.sha256(METADATA).hexdigest()}
    digest = vendor.offer(wheel, size=77, **{"core-metadata": listed})
    vendor.blobs[f"/files/{wheel.name}.metadata"] = METADATA
    result = catalog.update()
    assert result.added == [wheel.name]
    assert result.bad is False
    found = catalog.wheels()[wheel.name]
    assert found.sha256 == digest
    assert found.size == 77
    assert found.requires_dist == ("beta>=2",)
    # Only its end is asked for, which has the RECORD.
    ranges = [reach for path, reach in vendor.asked if path == f"/files/{wheel.name}"]
    assert ranges
    assert all(ranges)


def test_a_missing_hash_is_made_by_downloading_with_progress(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.snapshot(vendor, entry(wheel, requires_dist=["beta"]))
    digest = vendor.offer(wheel, hashed=False)
    assert catalog.update().completed == [wheel.name]
    found = catalog.wheels()[wheel.name]
    size = wheel.stat().st_size
    assert found.sha256 == digest
    assert found.size == size
    assert found.confirmed is True
    step = catalog.listener.steps.index(f"  {wheel.name}")
    assert catalog.listener.looks[step]()["files"] == {wheel.name: (size, size)}
    assert list((catalog.project.root / ".cache/update").iterdir()) == []


def test_a_file_that_changed_under_its_name_is_refused_and_reported(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path
) -> None:
    catalog.snapshot(vendor, entry(wheel, sha256="a" * 64, requires_dist=[]))
    before = catalog.path.read_bytes()
    digest = vendor.offer(wheel)
    result = catalog.update()
    assert result.bad
    assert result.reuploads == [update.Reupload(wheel.name, "a" * 64, digest)]
    assert catalog.path.read_bytes() == before


def test_a_file_without_the_hash_that_its_index_lists_is_refused(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path
) -> None:
    catalog.snapshot(vendor)
    vendor.offer(wheel)
    vendor.blobs[f"/files/{wheel.name}"] += b"more"
    result = catalog.update()
    assert "not have the hash that its index lists" in result.errors[0].what
    assert not catalog.wheels()


def test_an_old_file_is_confirmed_and_a_vanished_one_kept(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path, tmp_path: Path
) -> None:
    digest = vendor.offer(wheel)
    gone = make_wheel(tmp_path, "alpha", "1.1", {})
    catalog.snapshot(
        vendor,
        entry(wheel, sha256=digest, requires_dist=[]),
        entry(gone, sha256="b" * 64, requires_dist=[]),
    )
    result = catalog.update()
    assert result.completed == [wheel.name]
    assert result.vanished == [gone.name]
    assert catalog.wheels()[wheel.name].confirmed
    assert gone.name in catalog.wheels()
    assert not catalog.update().completed


def test_what_its_vendor_withdrew_is_told_and_not_added(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path, tmp_path: Path
) -> None:
    new = make_wheel(tmp_path, "alpha", "1.1", {})
    vendor.offer(new, yanked="it was never good")
    known = entry(wheel, sha256=vendor.offer(wheel), requires_dist=[])
    catalog.snapshot(vendor, known)
    for yanked, told in (
        ("it breaks", f"{wheel.name}: it breaks"),
        (True, wheel.name),
    ):
        vendor.offer(wheel, yanked=yanked)
        result = catalog.update()
        assert result.yanked == [told]
        assert result.added == []


@pytest.mark.parametrize(
    ("only", "url", "why"),
    [
        (["vendor"], "https://vendor.example", "--url goes with one new name"),
        (["other", "more"], "https://vendor.example", "--url goes with one new name"),
        (["No name"], "https://vendor.example", "--url goes with one new name"),
        (["other"], "https://vendor.example", "no spec takes a package"),
        (["vendor"], "vendor.example", "--url vendor.example"),
    ],
)
def test_what_is_no_new_index_is_refused(
    vendor: Vendor, catalog: SmallCatalog, only: list[str], url: str, why: str
) -> None:
    if not why.endswith(url):
        catalog.snapshot(vendor)
    with pytest.raises(UsageError, match=why):
        catalog.update(only=only, url=url)


def test_an_index_that_refuses_changes_nothing(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path
) -> None:
    catalog.snapshot(vendor, entry(wheel, sha256="a" * 64, requires_dist=[]))
    before = catalog.path.read_bytes()
    vendor.offer(wheel)
    for status in (403, 404):
        vendor.status["/simple/alpha/"] = status
        result = catalog.update()
        assert "alpha" in result.errors[0].what
        assert catalog.path.read_bytes() == before


def test_a_page_that_breaks_off_is_an_error_and_no_empty_page(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path
) -> None:
    vendor.blobs["/simple/alpha/"] = json.dumps({"files": []}).encode()
    vendor.cut["/simple/alpha/"] = [5] * 9
    catalog.snapshot(vendor, entry(wheel, sha256="a" * 64, requires_dist=[]))
    result = catalog.update()
    assert result.errors
    assert not result.vanished


def test_a_download_that_breaks_off_is_gone_on_with(
    vendor: Vendor, catalog: SmallCatalog, wheel: Path
) -> None:
    catalog.snapshot(vendor)
    digest = vendor.offer(wheel, hashed=False)
    path = f"/files/{wheel.name}"
    vendor.cut[path] = [100_000, 150_000]
    assert catalog.update().added == [wheel.name]
    assert catalog.wheels()[wheel.name].sha256 == digest
    ranges = [wanted for asked, wanted in vendor.asked if asked == path]
    assert ranges == [None, "bytes=65536-", "bytes=131072-"]


def record(version: str, sha256: str = "a" * 64, **more: object) -> dict[str, object]:
    return {
        "name": "zlib",
        "version": version,
        "build": "h0_0",
        "build_number": 0,
        "subdir": "win-64",
        "sha256": sha256,
        "md5": "0" * 32,
        "size": 1,
        "depends": ["__win"],
        "timestamp": 1700000000000,
    } | more


def channel(vendor: Vendor, catalog: SmallCatalog, *offered: dict[str, object]) -> None:
    python = record("3.11.9", name="python")  # which every conda layer holds
    packages = {
        f"{r['name']}-{r['version']}-{r['build']}.conda": r for r in (python, *offered)
    }
    for subdir, listed in {"win-64": packages, "noarch": {}}.items():
        repodata = {
            "info": {"subdir": subdir},
            "packages": {},
            "packages.conda": listed,
        }
        vendor.blobs[f"/forge/{subdir}/repodata.json"] = json.dumps(repodata).encode()
    folder = f"{vendor.url}/forge/win-64"
    url = f"{folder}/python-3.11.9-h0_0.conda"
    known = [
        python | {"url": url, "sources": ["the channel"]},
        record("1.2") | {"url": f"{folder}/zlib-1.2-h0_0.conda"},
    ]
    document = {
        "$schema": "channel.schema.json",
        "url": f"{vendor.url}/forge/",
        "packages": known,
    }
    catalog.path.write_text(json.dumps(document, indent=1))


@pytest.fixture
def solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rattler", reason="the group conda is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("solver")
def test_a_channels_newer_package_is_added_and_the_old_kept(
    vendor: Vendor, catalog: SmallCatalog
) -> None:
    channel(vendor, catalog, record("1.2"), record("1.3"))
    result = catalog.update("zlib")
    assert result.added == ["zlib-1.3-h0_0.conda"]
    assert result.bad is False
    found = load_snapshot(catalog.project.catalog, "vendor", Channel).packages
    zlib = [package for package in found if package.name == "zlib"]
    assert [package.version for package in zlib] == ["1.2", "1.3"]
    assert zlib[1].url == f"{vendor.url}/forge/win-64/zlib-1.3-h0_0.conda"
    # One that changed under its name is refused.
    channel(vendor, catalog, record("1.2", "b" * 64))
    before = catalog.path.read_bytes()
    (reupload,) = catalog.update("zlib").reuploads
    assert reupload.known == "a" * 64
    assert reupload.offered == "b" * 64
    assert catalog.path.read_bytes() == before


DEB = "libze-intel-gpu1_26.14.37833.4-0_amd64.deb"


def driver_set(catalog: SmallCatalog, vendor: Vendor, **facts: object) -> None:
    file = {"filename": DEB, "url": f"{vendor.url}/files/{DEB}", **facts}
    document = {
        "$schema": "driverset.schema.json",
        "version": "26.14.37833.4",
        "note": "n",
        "source": "s",
        "files": [file],
    }
    catalog.path.write_text(json.dumps(document, indent=1))


def test_a_driver_package_without_a_hash_gets_the_vendor_s(
    vendor: Vendor, catalog: SmallCatalog
) -> None:
    vendor.blobs[f"/files/{DEB}"] = b"the driver"
    driver_set(catalog, vendor)
    result = catalog.update()
    (file,) = load_snapshot(catalog.project.catalog, "vendor", DriverSet).files
    assert result.completed == [DEB]
    assert result.bad is False
    assert file.sha256 == hashlib.sha256(b"the driver").hexdigest()
    assert file.size == 10
    assert file.confirmed is True
    assert not list((catalog.project.root / ".cache/update").iterdir())
    asked = len(vendor.asked)
    text = catalog.path.read_text()
    assert catalog.update().completed == []
    assert catalog.path.read_text() == text
    assert len(vendor.asked) == asked


SUMS = """\
{a}  cpython-3.11.17+20261021-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz
{b}  cpython-3.11.17+20261021-x86_64-unknown-linux-gnu-install_only.tar.gz
{c}  cpython-3.11.17+20261021-x86_64-unknown-linux-musl-install_only_stripped.tar.gz
{d}  cpython-3.15.1+20261021-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz
{e}  cpython-3.12.15+20261021-aarch64-unknown-linux-gnu-install_only_stripped.tar.gz
"""


def pythons(catalog: SmallCatalog, vendor: Vendor) -> list[str]:
    known = {
        "filename": "cpython-3.12.14+20260929-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz",
        "url": "https://vendor.example/a.tar.gz",
        "sha256": "9" * 64,
    }
    document = {
        "$schema": "interpreters.schema.json",
        "url": f"{vendor.url}/latest.json",
        "files": [known],
    }
    catalog.path.write_text(json.dumps(document))
    return [str(known["filename"])]


def test_pythons_of_the_latest_release_are_added_and_older_ones_kept(
    vendor: Vendor, catalog: SmallCatalog
) -> None:
    (old,) = pythons(catalog, vendor)
    latest = {"asset_url_prefix": f"{vendor.url}/20261021"}
    vendor.blobs["/latest.json"] = json.dumps(latest).encode()
    sums = SUMS.format(**{letter: letter * 64 for letter in "abcde"})
    vendor.blobs["/20261021/SHA256SUMS"] = sums.encode()
    result = catalog.update()
    kept = load_snapshot(catalog.project.catalog, "vendor", Interpreters).files
    # 3.11 is a target's, 3.12 was known; 3.15 is neither, and the others are not for images.
    assert [(file.release, file.processor, file.sha256[0]) for file in kept] == [
        ("3.11.17+20261021", "x86_64", "a"),
        ("3.12.14+20260929", "x86_64", "9"),
        ("3.12.15+20261021", "aarch64", "e"),
    ]
    assert len(result.added) == 2
    assert result.bad is False
    assert kept[1].filename == old
    address = kept[0].filename.replace("+", "%2B")
    assert kept[0].url == f"{vendor.url}/20261021/{address}"
    before = catalog.path.read_bytes()
    vendor.blobs["/20261021/SHA256SUMS"] = sums.replace("a" * 64, "f" * 64).encode()
    (reupload,) = catalog.update().reuploads
    assert reupload.known == "a" * 64
    assert reupload.offered == "f" * 64
    assert catalog.path.read_bytes() == before


def test_a_release_that_cannot_be_read_is_an_error_that_changes_nothing(
    vendor: Vendor, catalog: SmallCatalog
) -> None:
    pythons(catalog, vendor)
    before = catalog.path.read_bytes()
    for page in (b"{}", b"[1]", b"no JSON"):
        vendor.blobs["/latest.json"] = page
        (error,) = catalog.update().errors
        assert f"{vendor.url}/latest.json" in error.what
    assert catalog.path.read_bytes() == before


SHOWN = """\
Package: libze-intel-gpu1
Version: 26.35.40001.2-1
Depends: libc6 (>= 2.38), libgcc-s1 (>= 3.4), libigdgmm12 (>= 22.11)
Filename: pool/main/i/x/libze-intel-gpu1_26.35.40001.2-1_amd64.deb
Size: 20
SHA256: {a}

Package: libigc2
Version: 2.41.1-1
Depends: libc6 (>= 2.43)
Filename: pool/main/i/y/libigc2_2.41.1-1_amd64.deb
Size: 30
SHA256: {b}
"""


def of_distribution() -> DriverSet:
    names = ("libze-intel-gpu1_26.27.39122.14-1", "libigc2_2.40.14-1")
    files = tuple(
        DriverFile(filename=f"{name}_amd64.deb", sha256="1" * 64) for name in names
    )
    return DriverSet(
        version="26.27.39122.14", note="n", source="s", glibc="2.36", files=files
    )


def test_a_distribution_s_driver_set_takes_what_its_apt_has_today() -> None:
    new = renewed(of_distribution(), SHOWN.format(a="a" * 64, b="b" * 64))
    assert new.version == "26.35.40001.2"
    assert new.glibc == "2.43"
    assert [(file.filename, file.sha256, file.size) for file in new.files] == [
        ("libze-intel-gpu1_26.35.40001.2-1_amd64.deb", "a" * 64, 20),
        ("libigc2_2.41.1-1_amd64.deb", "b" * 64, 30),
    ]


def test_an_apt_that_does_not_have_the_driver_is_told_where_it_is_known() -> None:
    shown = SHOWN.format(a="a" * 64, b="b" * 64).partition("\n\n")[0]
    with pytest.raises(ToolError, match="does not have libigc2") as caught:
        renewed(of_distribution(), shown)
    assert "container of Debian sid" in caught.value.remedy
