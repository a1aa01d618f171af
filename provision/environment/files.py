"""The files of an environment: listed, hashed, and compared with the RECORDs that name them.

All paths are relative to site-packages with forward slashes, as RECORD writes them; a script is
``../../../bin/x``. They stay strings: for 20,000 files Path objects cost more than the comparison.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from provision.core.filesystem import extended
from provision.core.findings import Finding, Level
from provision.core.hashing import sha256_below, sha256_bytes
from provision.core.text import plural
from provision.environment.chain import first_line, read_script
from provision.lockfile.wheel_record import INSTALLER_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from provision.environment.conda_meta import InstalledCondaPackage
    from provision.environment.installed import InstalledDistribution
from provision.lockfile.wheel_record import RecordEntry


def list_files(site: Path, *, with_stdlib: bool) -> dict[str, int]:
    """Return every file and its size; bytecode folders are left out."""
    # The standard library is in the folder above. A conda prefix has its own, which is locked.
    if not with_stdlib:
        return dict(_walk(site))
    inside = f"{site.name}/"
    return {
        path.removeprefix(inside) if path.startswith(inside) else f"../{path}": size
        for path, size in _walk(site.parent)
    }


def _walk(top: Path) -> Iterator[tuple[str, int]]:
    # scandir() instead of rglob(): the kind and, on Windows, the size come with the listing.
    folders = [(extended(top), "")]
    while folders:
        folder, base = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    # Python writes bytecode whenever somebody imports a module.
                    if entry.name != "__pycache__":
                        folders.append((entry.path, f"{base}{entry.name}/"))
                else:
                    size = -1  # of what is no file: a pipe, a device, a link to nothing
                    with contextlib.suppress(OSError):  # a link in a circle
                        size = entry.stat().st_size if entry.is_file() else -1
                    yield base + entry.name, size


def hash_files(
    site: Path, records: Iterable[list[RecordEntry]], on_disk: dict[str, int]
) -> dict[str, str]:
    """Return the SHA-256 of every recorded file that exists, each read once."""
    names = {line.path for record in records for line in record}
    # Scripts, headers and shared data are outside the listed folders.
    wanted = (name for name in names if name in on_disk or name.startswith("../"))
    sizes = {name: _size(name, site, on_disk) for name in wanted}
    return sha256_below(site, {name: size for name, size in sizes.items() if size >= 0})


def _size(name: str, site: Path, on_disk: dict[str, int]) -> int:
    """Return the bytes of a file, or -1 where there is none."""
    if name in on_disk:
        return on_disk[name]
    path = site / name
    return path.stat().st_size if path.is_file() else -1


def unrecorded_findings(
    on_disk: dict[str, int], records: Iterable[list[RecordEntry]]
) -> Iterator[Finding]:
    """Yield one finding that names the files which no RECORD lists."""
    recorded = {line.path for record in records for line in record}
    if unrecorded := sorted(on_disk.keys() - recorded):
        yield Finding(
            "unrecorded-file",
            Level.ERROR,
            f"{plural(len(unrecorded), 'file')} in site-packages not of any distribution",
            "something was copied there by hand; a .pth or sitecustomize.py changes every start, "
            "and a module can shadow a locked one",
            "remove them, or build again",
            _shortened(unrecorded),
        )


def damage_findings(
    dist: InstalledDistribution | InstalledCondaPackage,
    site: Path,
    record: list[RecordEntry],
    on_disk: dict[str, int],
    hashes: dict[str, str],
) -> Iterator[Finding]:
    """Yield what is wrong with the files of one distribution; those without a hash go by size."""
    if not record and dist.folder.suffix == ".dist-info":  # a conda package may hold no file
        yield Finding(
            "half-installed-package",
            Level.ERROR,
            f"{dist.name or dist.folder.name} has no readable RECORD",
            "its installation or removal was cut short",
            "build again",
            (str(dist.folder / "RECORD"),),
        )
    changed = [
        line.path
        for line in record
        # pip records the bytecode that it compiles; Python rewrites it at will.
        if "__pycache__/" not in line.path and _has_changed(line, site, on_disk, hashes)
    ]
    if changed:
        yield Finding(
            "changed-file",
            Level.ERROR,
            f"{plural(len(changed), 'file')} of {dist.name} missing or not as its RECORD says",
            "they were edited or removed after the build, or the installer's cache is damaged",
            "build again; if it stays, empty the cache with `uv cache clean` first",
            _shortened(changed),
        )


def _has_changed(
    line: RecordEntry, site: Path, on_disk: dict[str, int], hashes: dict[str, str]
) -> bool:
    if not line.hash and not line.length:  # a link, or RECORD itself: it has to be there
        return not os.path.lexists(site / line.path)
    if line.path in hashes and (recorded := line.sha256):
        return hashes[line.path] != recorded
    size = _size(line.path, site, on_disk)
    return size < 0 or line.size not in {None, size}


def _shortened(paths: list[str]) -> tuple[str, ...]:
    rest = [f"… and {len(paths) - 5} more"] if paths[5:] else []
    return (*paths[:5], *rest)


def tree_digest(
    prefix: Path, site: Path, hashes: dict[str, str], conda: list[InstalledCondaPackage]
) -> str:
    """Return one SHA-256 over the paths and hashes of all files, equal on every machine."""
    total, own = hashlib.sha256(), first_line(prefix)
    # A conda package's file may hold the prefix; its hash in the archive is the same everywhere.
    shipped = {path: digest for package in conda for path, digest in package.shipped.items()}
    for path, digest in sorted((hashes | shipped).items()):
        if path.endswith(".pyc") or path.rpartition("/")[2] in INSTALLER_FILES:
            continue
        outside = path.startswith("../") and path not in shipped
        if outside and (content := read_script(site / path)):
            # The installer writes the interpreter's path into the first line of a script, in a
            # form that depends on the path's length; on Windows it is inside of the program.
            content = own.sub(b"", content, count=1)
            digest = sha256_bytes(content.replace(str(prefix).encode(), b"{prefix}"))  # noqa: PLW2901
        total.update(f"{path} {digest}\n".encode())
    return total.hexdigest()
