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

LAYERS = "layers of the host"  # a part of a basis
CHANGED = "changed"  # of a package of the user's own that the checks may run
PURE = " pure: "  # before the modules of a distribution that is pure Python
_OF_COMMANDS = {"console_scripts", "gui_scripts"}  # groups of entry points
# Modules that each start of Python runs.
_AT_START = (".pth", "customize.py", "_virtualenv.py")


@dataclass(frozen=True, slots=True)
class Basis:
    """What results rest on, and who names what of it."""

    # SHA-256 of each thing that is no distribution, by its name for a person: the interpreter,
    # the checks, each variable.
    parts: dict[str, str]
    closures: dict[str, str]  # what is installed of each distribution, by its name
    # What else names one of some distributions, "" for nothing; the words are their modules.
    named: Callable[[Collection[str], Collection[str]], str]
    in_suite: Callable[
        [Collection[str]], bool
    ]  # whether the suite has one of some words
    layers: Mapping[str, str]  # of the host, one of the parts

    @property
    def digest(self) -> str:
        """SHA-256 of all parts."""
        return sha256_bytes(json.dumps(self.parts, sort_keys=True).encode())


def basis_of(
    project: Project, lock: Lock, contents: Contents, facts: Mapping[str, Any]
) -> Basis:
    """Return what results in an environment rest on, with the facts of target and host by name."""
    prefix = contents.prefix
    closures = _closures(contents, lock, project)
    things = {
        **facts,
        "name of the machine": platform.node(),
        # The kernel is a layer of the host.
        "operating system": platform.platform().replace(platform.release(), ""),
        "conda layer": lock.conda,
        "interpreter": [
            read_text(prefix / "pyvenv.cfg"),
            sha256_file(environment_python(prefix)),
        ],
        "pytest": importlib.metadata.version("pytest"),
        "checks": suite_digest(project),
    }
    parts = {}
    for name, thing in things.items():
        # Sorted: programs between, such as nox, pass variables on in another order.
        text = json.dumps(thing, sort_keys=True)
        # A prefix has the name of its lock, which says no more than the distributions.
        parts[name] = sha256_bytes(text.replace(prefix.name, "").encode())
    named = functools.partial(_named_by, contents, lock, project)
    in_suite = functools.partial(_in_suite, project)
    return Basis(parts, closures, named, in_suite, facts.get(LAYERS, {}))


def _closures(contents: Contents, lock: Lock, project: Project) -> dict[str, str]:
    """Return what is installed of each distribution, with its modules if it is pure Python."""
    locked = {artifact.name: artifact for artifact in lock.artifacts}
    owners = Counter[str]()
    for dist in contents.distributions:
        owners.update(modules_of(dist))
    closures: dict[str, str] = {}
    for dist in contents.distributions:
        closure = CHANGED
        if dist.name in lock.local:
            closure = _own(dist, contents, project)
        elif artifact := locked.get(dist.name):
            closure = f"{artifact.version} {artifact.sha256}"
        modules = modules_of(dist)
        # In a package of another one it may be loaded by that, as a back end of triton is.
        is_apart = all(owners[module] == 1 for module in modules)
        if closure != CHANGED and is_apart and not _is_active(dist):
            closure += PURE + " ".join(modules)
        closures[dist.name] = closure
    return closures


def _in_suite(project: Project, words: Collection[str]) -> bool:
    return is_named(words, _suite(project))


def _is_active(dist: InstalledDistribution) -> bool:
    """Whether it is more than Python that runs only where it is imported."""
    has_bytecode = False
    for entry in dist.entries:
        if is_native(entry.path) or entry.path.endswith(_AT_START):
            return True
        if entry.path.endswith(".pyc"):
            has_bytecode = True
    if has_bytecode and not modules_of(dist):
        return True
    return _is_loaded_by_others(dist) or _has_program(dist)


def _is_loaded_by_others(dist: InstalledDistribution) -> bool:
    """Whether it has entry points that another distribution loads, as triton its back ends."""
    text = read_text(dist.folder / "entry_points.txt")
    groups = re.findall(r"^\[(.+)\]", text, re.MULTILINE)
    return not _OF_COMMANDS.issuperset(groups)


def _has_program(dist: InstalledDistribution) -> bool:
    """Whether a file is a program of the machine, such as a compiler: without a suffix, no text."""
    for entry in dist.entries:
        path = dist.folder.parent / entry.path
        # A launcher beside python.exe is generated.
        if path.suffix == ".exe" and not entry.path.startswith("../"):
            return True
        if not path.suffix:
            begin = read_text(path, 16)
            if "\0" in begin or "\ufffd" in begin:
                return True
    return False


def _own(dist: InstalledDistribution, contents: Contents, project: Project) -> str:
    """Return what is installed of a package of the user's own, whose code may change any time."""
    for other in contents.distributions:
        if requires_any(other, [dist.name]):
            return CHANGED
    words = [dist.name, *modules_of(dist)]
    if _is_loaded_by_others(dist) or _in_suite(project, words):
        return CHANGED
    site = dist.folder.parent
    lines = []
    for entry in dist.entries:
        path = site / entry.path
        if path.suffix == ".pth" and _runs_code(path):
            return CHANGED
        # Its metadata change with each requirement that it gets.
        if path.is_file() and path.parent != dist.folder:
            lines.append(f"{os.path.relpath(path, site)} {sha256_file(path)}")
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
    left_out = {*names, *lock.local}
    others: list[InstalledDistribution | InstalledCondaPackage] = []
    for dist in contents.distributions:
        if dist.name not in left_out:
            if requires_any(dist, names):
                return dist.name
            others.append(dist)
    if _in_suite(project, words):
        return "the checks"
    # One of conda has no metadata that name one of pip.
    for package in (*others, *contents.conda):
        if is_named(words, code_of(package, contents.site)):
            return package.name
    return ""
