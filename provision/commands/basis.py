"""What the results of checks in an environment rest on, as the report of a build keeps it."""

import functools
import importlib.metadata
import json
import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.prefix import environment_python
from provision.core.project import Project
from provision.environment.conda_meta import InstalledCondaPackage
from provision.environment.contents import Contents
from provision.environment.installed import InstalledDistribution
from provision.environment.naming import (
    code_of,
    is_named,
    is_native,
    modules_of,
    requires_any,
)
from provision.environment.reading import read_text
from provision.lockfile.pip import Lock
from provision.report.history import suite_digest

CHANGED = "changed"  # of a package of the user's own that the checks may run
PURE = " pure: "  # before the modules of a distribution that is pure Python
# Modules that each start of Python runs.
_OF_COMMANDS = {"console_scripts", "gui_scripts"}  # groups of entry points
_AT_START = (".pth", "customize.py", "_virtualenv.py")


@dataclass(frozen=True, slots=True)
class Basis:
    """What results rest on, and who names what of it."""

    basis: (
        str  # SHA-256 of all but distributions: machine, interpreter, suite, promises
    )
    closures: dict[str, str]  # what is installed of each distribution, by its name
    # What else names one of some distributions, "" for nothing; the words are their modules.
    named: Callable[[Collection[str], Collection[str]], str]
    in_suite: Callable[
        [Collection[str]], bool
    ]  # whether the suite has one of some words
    layers: Mapping[str, str]  # of the host, which `basis` has


def basis_of(
    project: Project, lock: Lock, contents: Contents, facts: Mapping[str, Any]
) -> Basis:
    """Return what results in an environment rest on, with the facts of target and host."""
    prefix = contents.prefix
    locked = {one.name: f"{one.version} {one.sha256}" for one in lock.artifacts}
    owners = Counter(m for dist in contents.distributions for m in modules_of(dist))
    closures: dict[str, str] = {}
    for dist in contents.distributions:
        what = locked.get(dist.name, CHANGED)
        if dist.name in lock.local:
            what = _own(dist, contents, project)
        modules = modules_of(dist)
        # In a package of another one it may be loaded by that, as a back end of triton is.
        is_apart = all(owners[module] == 1 for module in modules)
        if what != CHANGED and is_apart and not _is_active(dist):
            what += PURE + " ".join(modules)
        closures[dist.name] = what
    python = [read_text(prefix / "pyvenv.cfg"), sha256_file(environment_python(prefix))]
    machine = [platform.node(), platform.platform(), lock.conda]
    tools = [importlib.metadata.version("pytest"), suite_digest(project)]
    # Sorted: programs between, such as nox, pass variables on in another order.
    text = json.dumps([facts, python, machine, tools], sort_keys=True)
    # A prefix has the name of its lock, which says no more than the distributions.
    digest = sha256_bytes(text.replace(prefix.name, "").encode())
    named = functools.partial(_named_by, contents, lock, project)
    in_suite = functools.partial(_in_suite, project)
    return Basis(digest, closures, named, in_suite, facts.get("layers", {}))


def _in_suite(project: Project, words: Collection[str]) -> bool:
    return is_named(words, _suite(project))


def _is_active(dist: InstalledDistribution) -> bool:
    """Whether it is more than Python that runs only where it is imported."""
    files = [entry.path for entry in dist.entries]
    runs = any(is_native(path) or path.endswith(_AT_START) for path in files)
    bytecode = any(path.endswith(".pyc") for path in files) and not modules_of(dist)
    return runs or bytecode or _is_loaded_by_others(dist) or _has_program(dist)


def _is_loaded_by_others(dist: InstalledDistribution) -> bool:
    """Whether it has entry points that another distribution loads, as triton its back ends."""
    groups = re.findall(r"^\[(.+)\]", read_text(dist.folder / "entry_points.txt"), re.M)
    return not {*groups} <= _OF_COMMANDS


def _has_program(dist: InstalledDistribution) -> bool:
    """Whether a file is a program of the machine, such as a compiler: without a suffix, no text."""
    for entry in dist.entries:
        path = dist.folder.parent / entry.path
        # A launcher beside python.exe is generated.
        if path.suffix == ".exe" and not entry.path.startswith("../"):
            return True
        if not path.suffix and {"\0", "\ufffd"} & {*read_text(path, 16)}:
            return True
    return False


def _own(dist: InstalledDistribution, contents: Contents, project: Project) -> str:
    """Return what is installed of a package of the user's own, whose code may change any time."""
    files = [dist.folder.parent / entry.path for entry in dist.entries]
    hooks = [path for path in files if path.suffix == ".pth"]
    used = any(requires_any(one, [dist.name]) for one in contents.distributions)
    words = [dist.name, *modules_of(dist)]
    runs = _is_loaded_by_others(dist) or any(map(_runs_code, hooks))
    if runs or used or _in_suite(project, words):
        return CHANGED
    # Its metadata change with each requirement that it gets.
    code = [path for path in files if path.is_file() and path.parent != dist.folder]
    site = dist.folder.parent
    lines = [f"{os.path.relpath(path, site)} {sha256_file(path)}" for path in code]
    return f"own {sha256_bytes(json.dumps(lines).encode())}"


def _runs_code(hook: Path) -> bool:
    """Whether a .pth file runs more than what setuptools makes to find an editable package."""
    lines = read_text(hook).splitlines()
    return any(re.match(r"import\s+(?!__editable__)", line) for line in lines)


def _suite(project: Project) -> Iterator[Path]:
    for kind in ("*.py", "*.json"):
        yield from project.smoke.rglob(kind)


def _named_by(
    contents: Contents,
    lock: Lock,
    project: Project,
    names: Collection[str],
    words: Collection[str],
) -> str:
    # No check runs the user's own packages; see _own().
    known = {*names, *lock.local}
    others = [one for one in contents.distributions if one.name not in known]
    for one in others:
        if requires_any(one, names):
            return one.name
    if is_named(words, _suite(project)):
        return "the checks"
    # One of conda has no metadata that name one of pip.
    packages: list[InstalledDistribution | InstalledCondaPackage] = [*others]
    for package in [*packages, *contents.conda]:
        if is_named(words, code_of(package, contents.site)):
            return package.name
    return ""
