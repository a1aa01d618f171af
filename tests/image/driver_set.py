"""Driver sets in miniature: a catalog entry over real Debian packages, or over any bytes."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from provision.catalog.snapshot import DriverFile, DriverSet, render_snapshot
from provision.core.process import run

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "26.14.37833.4"
LIBRARY = "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1"


def make_deb(
    folder: Path, package: str, files: dict[str, str], depends: str = "libc6"
) -> Path:
    """Build a real Debian package, the same bytes each time."""
    tree = folder / package
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text, encoding="utf-8")
    (tree / "DEBIAN").mkdir(parents=True)
    control = (
        f"Package: {package}\nVersion: {VERSION}-0\nArchitecture: amd64\nMaintainer: x <x@y.z>\n"
        f"Depends: {depends}\nDescription: stand-in\n"
    )
    (tree / "DEBIAN" / "control").write_text(control, encoding="utf-8")
    made = folder / f"{package}_{VERSION}-0_amd64.deb"
    run(
        ["dpkg-deb", "--build", "--root-owner-group", tree, made],
        env={"SOURCE_DATE_EPOCH": "0"},
    ).require("built")
    shutil.rmtree(tree)
    return made


def make_set(
    catalog: Path,
    name: str,
    files: dict[str, bytes | None],
    url: str = "https://vendor.example",
    version: str = VERSION,
) -> DriverSet:
    """Write a driver set over files of these contents; None is one whose hash is not known."""
    entries = tuple(
        DriverFile(
            filename=filename,
            url=f"{url}/{filename}",
            sha256=None if content is None else hashlib.sha256(content).hexdigest(),
        )
        for filename, content in files.items()
    )
    made = DriverSet(version=version, note="a test's", source="a test", files=entries)
    (catalog / f"{name}.json").write_text(render_snapshot(made), encoding="utf-8")
    return made
