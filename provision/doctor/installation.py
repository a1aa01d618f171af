"""The files of an environment, compared with what its installers recorded of them."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import SpecError
from provision.core.hashing import sha256_file
from provision.doctor.data import data
from provision.doctor.elf import BROKEN, Elf
from provision.environment.conda_meta import installed_conda_packages
from provision.environment.installed import InstalledDistribution as Dist
from provision.environment.reading import list_names, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.environment import Environment
    from provision.lockfile.wheel_record import RecordEntry

_SECONDS = 0.3  # for hashes, newest files first: those that were edited later than the rest
_MOST = 20_000_000  # bytes of a file that is hashed
_MIXED = 20  # changed modules of one package; patches by hand change fewer
_CODE = re.compile(r"\.(py|pyd|dll|so(\.[\d.]+)?)$")
# Also the form for long paths. A wheel may bring a script for the system's Python, in /usr.
_SCRIPT = re.compile(r"(?:#!|#!/bin/sh\n'''exec' ['\"]?)((?!/usr/)/[^'\"\n]*)/python[\d.]*['\"\s]")
_PATH = re.compile(r"(?:^|['\"])(/[^'\"\n]+)", re.MULTILINE)

Faults = dict[str, dict[Dist, list[str]]]


def read_installation(env: Environment) -> Faults:
    """Return what is not as it was installed: by case, and by the package, program or project."""
    found: Faults = {}
    owners, modified = _owners(env, found), dict[str, float]()
    for path, ((dist, entry), *others) in owners.items():
        if any(other.hash != entry.hash for _, other in others):
            if not path.endswith("__init__.py"):  # which packages of one namespace share
                for owner, _ in ((dist, entry), *others):
                    _add(found, "overwritten", owner, entry.path)
        elif case := _fault(path, entry, modified):
            _add(found, case, dist, entry.path)
    end = time.monotonic() + _SECONDS
    for path in sorted(modified, key=modified.__getitem__, reverse=True):
        dist, entry = owners[path][0]
        if time.monotonic() < end and entry.sha256 not in {None, sha256_file(Path(path))}:
            _add(found, "changed-file", dist, entry.path)
    for dist, paths in list(found.get("changed-file", {}).items()):
        if sum(path.endswith(".py") for path in paths) >= _MIXED:
            found.setdefault("damaged", {}).setdefault(dist, []).extend(paths)
    for case, name, what in (*_dead_editables(env), *_launchers(env)):
        _add(found, case, Dist(name, "", env.prefix), what)
    return found


def _add(found: Faults, case: str, dist: Dist, what: str) -> None:
    found.setdefault(case, {}).setdefault(dist, []).append(what)


def _fault(path: str, entry: RecordEntry, modified: dict[str, float]) -> str:
    """Return the case of a file, or "" and note when one that may be hashed was written."""
    worse = "damaged" if _CODE.search(path) else "changed-file"
    try:
        status = os.stat(path)  # noqa: PTH116 - there are 50,000
        if entry.size not in {None, status.st_size}:
            whole = status.st_size and (".so" not in path or Elf(path).whole)
            return "changed-file" if whole else worse
        if entry.hash and status.st_size < _MOST:
            modified[path] = status.st_mtime
    except BROKEN:
        # Bytecode may be there in place of its source.
        return "" if os.path.exists(f"{path}c") else worse  # noqa: PTH110
    return ""


def _owners(env: Environment, found: Faults) -> dict[str, list[tuple[Dist, RecordEntry]]]:
    """Return the files that matter by path, each with those who installed it."""
    files = data("packages")["files"]
    optional, others = re.compile(files["optional"]), files["distributors"]
    dists = [several[0] for several in env.distributions.values() if not several[1:]]
    entries = {dist: dist.entries for dist in dists if dist.installer not in others}
    owners: dict[str, list[tuple[Dist, RecordEntry]]] = {}
    for dist, lines in (entries | _conda(env, found)).items():
        site = dist.folder.parent if dist in entries else env.site
        for line in lines:
            if not optional.search(line.path):
                owners.setdefault(f"{site}/{line.path}", []).append((dist, line))
    return owners


def _conda(env: Environment, found: Faults) -> dict[Dist, list[RecordEntry]]:
    """Return conda's packages with their files; those that others replaced are faults."""
    packages = {}
    with contextlib.suppress(SpecError, ValueError):  # garbage, or not below the prefix
        for package in installed_conda_packages(env.prefix, env.site):
            dist = Dist(package.name, package.version, package.folder)
            # Another installer removes these two, and writes its own.
            proofs = [(env.site / entry.path, entry.sha256) for entry in package.entries
                      if entry.path.endswith(("-info/INSTALLER", "-info/METADATA"))]  # fmt: skip
            if all(path.is_file() and sha256_file(path) == digest for path, digest in proofs):
                packages[dist] = package.entries
                continue
            name = {"pytorch": "torch"}.get(dist.name, dist.name)
            if (now := env.get(name)) and name in data("packages")["stack"]:
                _add(
                    found, "conda-pip-mix", dist, f"{now.installer} installed {name} {now.version}"
                )
    return packages


def _dead_editables(env: Environment) -> Iterator[tuple[str, str, str]]:
    links = [name for name in list_names(env.site) if name.endswith(".egg-link")]
    named = {name.removesuffix(".egg-link"): [name] for name in links}
    for dist in (several[0] for several in env.distributions.values()):
        if re.search(r'"editable": ?true', read_text(dist.folder / "direct_url.json")):
            paths = [entry.path for entry in dist.entries]
            named[dist.name] = [path for path in paths if path.endswith((".pth", "_finder.py"))]
    for name, files in named.items():
        for folder in _PATH.findall("\n".join(read_text(env.site / file) for file in files)):
            if not Path(folder).exists():
                yield "editable-gone", name, folder


def _launchers(env: Environment) -> Iterator[tuple[str, str, str]]:
    own = env.prefix / "bin"
    if not any((env.prefix / mark).exists() for mark in ("pyvenv.cfg", "conda-meta")):
        return  # the programs of a system are for several Pythons
    for name in list_names(own):
        script = _SCRIPT.match(read_text(own / name)[:2000])
        if script and not (Path(script[1]).exists() and own.samefile(script[1])):
            yield "moved-environment", f"bin/{name}", script[1]
