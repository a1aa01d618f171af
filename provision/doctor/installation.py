"""The files of an environment, compared with what its installers recorded of them."""

import contextlib
import itertools
import os
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from provision.core.errors import SpecError
from provision.core.hashing import sha256_file
from provision.core.limits import open_regular
from provision.doctor.data import data
from provision.doctor.elf import BROKEN, Elf
from provision.doctor.environment import Environment
from provision.environment.conda_meta import installed_conda_packages
from provision.environment.installed import InstalledDistribution as Dist
from provision.environment.installed import distributions_in, name_of
from provision.environment.reading import list_names, read_text
from provision.lockfile.wheel_record import RecordEntry

_HASHED = 3_000  # files, newest first: those that were edited later than the rest
_MOST = 3_000_000  # bytes of a file that is hashed
_MIXED = 20  # changed modules of one package; patches by hand change fewer
_CODE = re.compile(r"\.(py|pyd|dll|so(\.[\d.]+)?)$")
# Also the form for long paths. A wheel may bring a script for the system's Python, in /usr.
_SCRIPT = re.compile(
    r"(?:#!|#!/bin/sh\n'''exec' ['\"]?)((?!/usr/)/[^'\"\n]*)/python[\d.]*['\"\s]"
)
_INSTALLER = (
    "-info/INSTALLER",
    "-info/METADATA",
)  # another one removes them, and writes its own
_PATH = re.compile(r"(?:^|['\"])(/[^'\"\n]+)", re.MULTILINE)
Faults = dict[str, dict[Dist, list[str]]]
Lines = list[tuple[Dist, RecordEntry]]  # of the records that name one file


def read_installation(env: Environment) -> Faults:
    """Return what is not as it was installed: by case, and by the package, program or project."""
    found: Faults = defaultdict(lambda: defaultdict(list))
    owners, modified = _owners(env, found), dict[str, float]()
    cases = ((path, _fault(path, lines, modified)) for path, lines in owners.items())
    # A generator over `modified`, which is full when the first of the two has ended.
    for path, case in itertools.chain(cases, _edited(owners, modified)):
        for dist, entry in (
            owners[path][: None if case == "overwritten" else 1] if case else ()
        ):
            worse = case == "changed-file" and not _is_valid(path, env.python)
            found["damaged" if worse else case][dist].append(entry.path)
    for dist, paths in list(found.get("changed-file", {}).items()):
        if sum(path.endswith(".py") for path in paths) >= _MIXED:
            found["damaged"][dist] += paths
    for case, name, what in (
        *_dead_editables(env),
        *_launchers(env),
        *_unlisted(env, owners),
    ):
        found[case][Dist(name, "", env.prefix)].append(what)
    return found


def _fault(path: str, lines: Lines, modified: dict[str, float]) -> str:
    """Return the case of a file, or "" and note when one that may be hashed was written."""
    entry = lines[0][1]
    if lines[1:] and any(other.hash != entry.hash for _, other in lines):
        if not path.endswith("__init__.py"):
            return "overwritten"
        # Packages of one namespace share the file that makes it one.
        table, small = (
            data("packages")["files"],
            min(line.size or 0 for _, line in lines),
        )
        namespace = re.match(table["namespace"], read_text(Path(path)))
        own = small >= table["small"] and not re.search(table["common"], entry.path)
        return "overwritten" if own and not namespace else ""
    worse = "damaged" if _CODE.search(path) else "changed-file"
    try:
        status = os.stat(path)  # noqa: PTH116 - there are 50,000
        if entry.size not in {None, status.st_size}:
            whole = status.st_size and (".so" not in path or Elf(path).whole)
            return "changed-file" if whole else worse
        if entry.hash.startswith("sha256=") and status.st_size < _MOST:
            modified[path] = status.st_mtime
    except BROKEN:
        # Bytecode may be there in place of its source.
        return "" if os.path.exists(f"{path}c") else worse  # noqa: PTH110
    return ""


def _edited(
    owners: dict[str, Lines], modified: dict[str, float]
) -> Iterator[tuple[str, str]]:
    for path in sorted(modified, key=modified.__getitem__, reverse=True)[:_HASHED]:
        if owners[path][0][1].sha256 != sha256_file(Path(path)):
            yield path, "changed-file"


def _is_valid(path: str, python: str) -> bool:
    # A module of a newer Python than this one is taken for valid, like all other files.
    with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
        known = path.endswith(".py") and int(python[2:] or 99) <= sys.version_info.minor
        return bool(
            compile(read_text(Path(path), _MOST).strip("\ufeff") * known, path, "exec")
        )
    return False


def _owners(env: Environment, found: Faults) -> dict[str, Lines]:
    """Return the files that matter by path, each with those who installed it."""
    files = data("packages")["files"]
    optional, others = re.compile(files["optional"]), files["distributors"]
    once = (dist for dist in env.dists if not env.distributions[dist.name][1:])
    entries = {dist: dist.entries for dist in once if dist.installer not in others}
    owners: dict[str, Lines] = {}
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
            own = [line for line in package.entries if line.path.endswith(_INSTALLER)]
            files = [(env.site / line.path, line.sha256) for line in own]
            if all(
                path.is_file() and sha256_file(path) == digest for path, digest in files
            ):
                packages[dist] = package.entries
                continue
            name = {"pytorch": "torch"}.get(dist.name, dist.name)
            if (now := env.get(name)) and name in data("packages")["stack"]:
                found["conda-pip-mix"][dist].append(f"{now.installer} installed {now}")
    return packages


def _dead_editables(env: Environment) -> Iterator[tuple[str, str, str]]:
    roots = {dist.folder.parent for dist in env.dists}
    links = [name for name in list_names(env.site) if name.endswith(".egg-link")]
    named = {name.removesuffix(".egg-link"): [name] for name in links}
    for dist in env.dists:
        if re.search(r'"editable": ?true', read_text(dist.folder / "direct_url.json")):
            paths = [entry.path for entry in dist.entries]
            named[dist.name] = [
                path for path in paths if path.endswith((".pth", "_finder.py"))
            ]
    for name, files in named.items():
        for folder in _PATH.findall(
            "\n".join(read_text(env.site / file) for file in files)
        ):
            roots |= {Path(folder), Path(folder).parent}
            if not Path(folder).exists():
                yield "editable-gone", name, folder
    yield from _dead_plugins(env, roots)


def _dead_plugins(env: Environment, roots: set[Path]) -> Iterator[tuple[str, str, str]]:
    section = re.compile(rf"(?ms)^\[{data('packages')['plugins']}\]$(.*?)(?=^\[|\Z)")
    for dist in env.dists:
        groups = "\n".join(section.findall(read_text(dist.folder / "entry_points.txt")))
        for module in re.findall(r"=\s*(\w+\.[\w.]+)", groups):
            *folders, name = module.split(".")
            there = {n for root in roots for n in list_names(root.joinpath(*folders))}
            if "__init__.py" in there and name not in {
                n.partition(".")[0] for n in there
            }:
                yield "plugin-gone", dist.name, f"its entry point names {module}"


def _unlisted(
    env: Environment, owners: dict[str, Lines]
) -> Iterator[tuple[str, str, str]]:
    """Yield the packages whose folder is there, without metadata, although others require them."""
    lines = [
        (dist, line)
        for dist in env.dists
        for line in dist.requires
        if "extra" not in line
    ]
    for name, dist in {name_of(line): dist for dist, line in lines}.items():
        start = f"{name.replace('-', '_')}/__init__.py"
        if name in env.distributions or not (env.site / start).is_file():
            continue
        others = {line.path for other in env.dists for line in other.entries}
        if start not in others and f"{env.site}/{start}" not in owners:
            yield (
                "unlisted",
                name,
                f"{dist} requires it; beside {env.site / start} is no .dist-info",
            )


def elsewhere(env: Environment, variables: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what Python imports from other folders, by the variable or file that names them."""
    path, inserts = (
        variables.get("PYTHONPATH", ""),
        re.compile(data("packages")["path_inserts"]),
    )
    code = [
        (n, line)
        for n in env.customize
        for line in read_text(env.site / n).splitlines()
    ]
    first = [
        ("PYTHONPATH", folder)
        for folder in path.split(";" if env.windows else ":")
        if folder
    ]
    first += [
        (name, folder)
        for name, line in (*env.pth, *code)
        if inserts.search(line)
        for folder in _PATH.findall(line)
    ]
    after = [
        (n, str(env.site / line))
        for n, line in env.pth
        if not line.startswith("import")
    ]
    found: dict[str, list[str]] = {}
    for who, folder in (*first, *after):
        listed = (
            distributions_in([folder]) if folder.rstrip("/\\") != str(env.site) else {}
        )
        for name in data("packages")["stack"]:
            # A folder without __init__.py gives way to a later package that has one.
            own, other = (
                Path(f, name.replace("-", "_"), "__init__.py")
                for f in (env.site, folder)
            )
            both = own.is_file() and other.is_file() and not other.samefile(own)
            if name in listed or (both and (who, folder) in first):
                found.setdefault(who, []).append(f"{folder} has {name}")
    return found


def _launchers(env: Environment) -> Iterator[tuple[str, str, str]]:
    own = env.prefix / "bin"
    if not any((env.prefix / mark).exists() for mark in ("pyvenv.cfg", "conda-meta")):
        return  # the programs of a system are for several Pythons
    for name in list_names(own):
        with contextlib.suppress(OSError), open_regular(own / name) as stream:
            script = _SCRIPT.match(stream.read(2000).decode("utf-8", "replace"))
            if script and not (Path(script[1]).exists() and own.samefile(script[1])):
                yield "moved-environment", f"bin/{name}", script[1]


def stale_caches(home: Path, root: Path) -> tuple[Path, ...]:
    """Return the kernel caches with entries from before the newest user-mode driver."""
    table, changed, stale = data("packages")["caches"], 0.0, []
    for driver in table["drivers"]:
        with contextlib.suppress(OSError):
            changed = max(changed, (root / driver).stat().st_ctime)
    for folder in table["folders"]:
        with contextlib.suppress(OSError), os.scandir(home / folder) as entries:
            if any(
                entry.stat(follow_symlinks=False).st_mtime < changed
                for entry in entries
            ):
                stale.append(home / folder)
    return tuple(stale)
