"""Conda packages made here: small ones, and one of this machine's own CPython."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import zstandard

VERSION = ".".join(map(str, sys.version_info[:3]))
MINOR = ".".join(map(str, sys.version_info[:2]))
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|test|tests|idlelib|turtledemo|tkinter|lib2to3|ensurepip|config-\d.*)(/|$)"
    r"|site-packages/.|\.a$|^lib/pkgconfig"
)


@dataclass(frozen=True)
class File:
    """A member of a package: its bytes, or where it links to."""

    data: bytes = b""
    mode: int = 0o644
    link: str | None = None
    placeholder: str | None = None


def make_package(
    channel: Path,
    name: str,
    version: str,
    files: dict[str, File],
    *,
    build: str = "0",
    subdir: str = "linux-64",
    noarch: str | None = None,
    depends: tuple[str, ...] = (),
) -> Path:
    """Write a ``.conda`` package into a channel, the same bytes each time."""
    stem = f"{name}-{version}-{build}"
    index = {"name": name, "version": version, "build": build, "build_number": 0}
    index |= {"depends": list(depends), "subdir": subdir}
    paths = [_path(path, files[path]) for path in sorted(files)]
    info = {
        "info/index.json": index,
        "info/paths.json": {"paths": paths, "paths_version": 1},
        "info/about.json": {},
    }
    if noarch:
        index["noarch"] = noarch
        link = {"type": "python", "entry_points": [f"{name}-hello = {name}:hello"]}
        info["info/link.json"] = {"noarch": link, "package_metadata_version": 1}
    described = {"info/files": File("\n".join([*sorted(files), ""]).encode())}
    for path, document in info.items():
        described[path] = File(json.dumps(document, sort_keys=True).encode())
    archive = channel / subdir / f"{stem}.conda"
    archive.parent.mkdir(parents=True, exist_ok=True)
    compress = zstandard.ZstdCompressor(level=1).compress
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as whole:
        for member, data in (
            ("metadata.json", b'{"conda_pkg_format_version": 2}'),
            (f"pkg-{stem}.tar.zst", compress(_tar(files))),
            (f"info-{stem}.tar.zst", compress(_tar(described))),
        ):
            whole.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), data)
    return archive


def _path(path: str, file: File) -> dict[str, object]:
    if file.link:
        return {"_path": path, "path_type": "softlink"}
    entry = {
        "_path": path,
        "path_type": "hardlink",
        "size_in_bytes": len(file.data),
        "sha256": hashlib.sha256(file.data).hexdigest(),
    }
    if file.placeholder:
        entry |= {"prefix_placeholder": file.placeholder, "file_mode": "text"}
    return entry


def _tar(files: dict[str, File]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.mode = files[path].mode
            if link := files[path].link:
                entry.type, entry.linkname = tarfile.SYMTYPE, link
            else:
                entry.size = len(files[path].data)
            archive.addfile(entry, io.BytesIO(files[path].data))
    return whole.getvalue()


def make_python(channel: Path) -> Path:
    """Package this machine's own CPython, trimmed, so that it runs from any prefix."""
    base = Path(sys.base_prefix).resolve()
    files = {}
    for folder in ("bin", "lib"):
        for top, folders, names in os.walk(base / folder):
            # Of which a machine's Python can have thousands.
            folders[:] = [name for name in folders if name != "site-packages"]
            links = [name for name in folders if Path(top, name).is_symlink()]
            for name in (*names, *links):
                path = Path(top, name)
                relative = path.relative_to(base).as_posix()
                if _belongs(relative):
                    files[relative] = _member(path, relative, str(base))
    files.setdefault(f"lib/python{MINOR}/site-packages/README.txt", File(b"none yet\n"))
    return make_package(channel, "python", VERSION, files, build="0_cpython")


def _belongs(relative: str) -> bool:
    if relative.startswith("bin/"):
        return relative in {"bin/python", "bin/python3", f"bin/python{MINOR}"}
    mine = f"/python{MINOR}/" in relative or "libpython" in relative
    return mine and not _LEFT_OUT.search(relative)


def _member(path: Path, relative: str, base: str) -> File:
    if path.is_symlink():
        return File(mode=0o777, link=str(path.readlink()))
    data, mode = path.read_bytes(), path.stat().st_mode & 0o777
    if data[:4] == b"\x7fELF":
        return File(_relocatable(data, relative, base), mode)
    return File(data, mode, placeholder=base if base.encode() in data else None)


def _relocatable(data: bytes, relative: str, base: str) -> bytes:
    """Make an absolute RUNPATH relative, in place, padded with NUL."""
    absolute = f"{base}/lib\0".encode()
    own = f"$ORIGIN/{os.path.relpath('lib', Path(relative).parent)}".encode()
    return data.replace(absolute, own.ljust(len(absolute), b"\0"))


def lock_text(
    channel_url: str, archives: list[Path], platform: str = "linux-64"
) -> str:
    """Return the ``conda-lock.yml`` of some archives; JSON is YAML too."""
    packages = []
    for archive in archives:
        name, version, _ = archive.name.rsplit("-", 2)
        data = archive.read_bytes()
        packages.append(
            {
                "name": name,
                "version": version,
                "manager": "conda",
                "platform": platform,
                "dependencies": {},
                "url": f"{channel_url}/{archive.parent.name}/{archive.name}",
                "hash": {
                    "sha256": hashlib.sha256(data).hexdigest(),
                    "md5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
                },
                "category": "main",
                "optional": False,
            }
        )
    metadata = {
        "channels": [{"url": channel_url, "used_env_vars": []}],
        "platforms": [platform],
    }
    return json.dumps({"version": 1, "metadata": metadata, "package": packages})
