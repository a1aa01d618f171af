"""Pythons for images in miniature: a catalog entry over any bytes, or a real one of this machine's.

The published archives cannot be had everywhere, so a real one is made here of the Python that runs the
tests: its library, the shared libraries that it needs, and a search path that follows the folder.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import sys
import tarfile
from pathlib import Path

from provision.catalog.snapshot import Interpreter, Interpreters, render_snapshot
from provision.core.process import run

_OWN = "{}.{}.{}".format(*sys.version_info[:3])
_NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LEFT = ("__pycache__", "test", "tests", "site-packages", "dist-packages", "config-*")


def write_catalog(
    catalog: Path, archive: Path, url: str = "https://vendor.example"
) -> None:
    """Write the catalog of Pythons that has one archive."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    entry = Interpreter(
        filename=archive.name, url=f"{url}/{archive.name}", sha256=digest
    )
    known = Interpreters(url=f"{url}/latest.json", files=(entry,))
    path = catalog / "python-standalone.json"
    path.write_text(render_snapshot(known), encoding="utf-8")


def archive_name(version: str = _OWN) -> str:
    """Return the name of the archive of a Python for this machine."""
    system = f"{platform.machine()}-unknown-linux-gnu"
    return f"cpython-{version}+20260929-{system}-install_only_stripped.tar.gz"


def bytes_archive(folder: Path, catalog: Path, content: bytes = b"a Python") -> Path:
    """Write an archive that is none, for what is never started, and its catalog."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / archive_name()
    archive.write_bytes(content)
    write_catalog(catalog, archive)
    return archive


def real_archive(folder: Path) -> Path:
    """Make an archive of the Python that runs the tests, which works in any folder."""
    top, base = folder / "python", Path(sys.base_prefix)
    library = top / "lib" / _NAME
    ignore = shutil.ignore_patterns(*_LEFT)
    shutil.copytree(base / "lib" / _NAME, library, ignore=ignore, symlinks=True)
    (library / "site-packages").mkdir()
    program = top / "bin" / _NAME
    program.parent.mkdir()
    shutil.copy2(base / "bin" / _NAME, program)
    for name in ("python3", "python"):
        (program.parent / name).symlink_to(_NAME)
    for library_file in _needed([program, *library.rglob("*.so")]):
        shutil.copy2(library_file, top / "lib")
    # RPATH and not RUNPATH: the program's holds for what modules need, too, if they have none.
    modules = [str(path) for path in library.rglob("*.so")]
    run(["patchelf", "--remove-rpath", *modules]).require(
        "patched", remedy="`.ci/engine` installs patchelf"
    )
    argv = ["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../lib", str(program)]
    run(argv).require("patched")
    archive = folder / archive_name()
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(top, "python")
    shutil.rmtree(top)
    return archive


def _needed(files: list[Path]) -> set[Path]:
    """Return the libraries that programs and modules need besides glibc's own."""
    found: set[Path] = set()
    for file in files:
        shown = run(["ldd", str(file)]).stdout
        found |= {Path(path) for path in re.findall(r"=> (/\S+)", shown)}
    glibc = re.compile(r"(ld-linux|lib(c|m|dl|rt|util|pthread|crypt_?)\.so\.[126]$)")
    return {path for path in found if not glibc.match(path.name)}
