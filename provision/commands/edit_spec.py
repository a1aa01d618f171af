"""Edit the requirements of specs and lock them; a spec that cannot be locked stays as it was."""

import contextlib
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from packaging.utils import canonicalize_name

from provision.commands.build_request import BuildResult
from provision.commands.freshness import lockable_names
from provision.commands.lock import LockResult, lock
from provision.core.errors import ProvisionError, UsageError
from provision.core.filesystem import write_atomic
from provision.core.limits import decoded
from provision.core.project import Project
from provision.lockfile.pip import CONDA_LAYER, PIP_LAYER, read_lock
from provision.resolver.resolver import Resolver
from provision.spec.model import Target
from provision.spec.reader import load_spec, target_names


@dataclass(frozen=True, slots=True)
class Edited:
    """One edited target: its new lock, and the build of it, where it was built."""

    lock: LockResult
    """The new lock."""
    build: BuildResult | None
    """null where it was not built."""


@contextlib.contextmanager
def pip_table(path: Path) -> Iterator[Any]:
    """Give the table ``pip`` of a spec file to be edited; comments and layout stay."""
    document = tomlkit.parse(_text(path))
    yield document.setdefault(
        "pip", tomlkit.table()
    )  # absent where a spec extends another
    write_atomic(path, tomlkit.dumps(document))


def add_to(path: Path, requirements: Sequence[str], index: str | None = None) -> Target:
    """Add requirements to a spec file, or replace those of the same distributions."""
    load_spec(path)
    with pip_table(path) as pip:
        listed = pip.setdefault("requirements", [])
        for requirement in requirements:
            same = _places(listed, _name(requirement))
            if len(same) == 1:
                listed[same[0]] = requirement
            elif requirement not in listed:  # several differ by their markers
                listed.append(requirement)
            _take(pip, "drop", _name(requirement))
        if index:
            table = pip.setdefault("index", {})
            for name in map(_name, requirements):
                for other in list(table):
                    _take(table, other, name)
                table.setdefault(index, []).append(name)
    return load_spec(path)


def remove_from(path: Path, names: Sequence[str]) -> Target:
    """Remove requirements from a spec file; UsageError if it has no such distribution."""
    wanted, required = [*map(_name, names)], _required(path)
    if absent := [name for name in wanted if name not in required]:
        raise UsageError(
            f"{path} does not require {', '.join(absent)}",
            cause=f"it requires {', '.join(sorted(required))}",
            remedy="name one of these; what only these require goes with them",
        )
    with pip_table(path) as pip:
        for name in wanted:
            _take(pip, "requirements", name)
    if left := [name for name in wanted if name in _required(path)]:
        with pip_table(path) as pip:
            pip.setdefault("drop", []).extend(left)
    return load_spec(path)


def still_locked(project: Project, named: str, words: Iterable[str]) -> Iterator[str]:
    """Yield what stays in the lock of a target, or of `all`, though it was removed, and why."""
    names = set(map(_name, words))
    for target in lockable_names(project) if named == "all" else [named]:
        for each in read_lock(project.lock(target)).artifacts:
            if each.name in names:
                yield f"{target}: {each.name} stays in the lock, for {', '.join(each.via)}"


def upgradable(project: Project, named: Sequence[str], package: str) -> list[str]:
    """Return the targets that have a package, of all if none is named; UsageError if one lacks."""
    every = target_names(project.specs)
    if package in every:
        targets = " ".join([*named, package])
        raise UsageError(
            f"--upgrade took {package} for a package, and it is a target",
            remedy=f"name targets first: `provision lock {targets} --upgrade`",
        )
    name = str(canonicalize_name(package))
    asked = named or lockable_names(project)
    having = [one for one in asked if name in read_lock(project.lock(one)).versions]
    if not having or (named and len(having) < len(named)):
        lacking = ", ".join(one for one in asked if one not in having)
        raise UsageError(
            f"no package {package} to upgrade in {lacking}",
            remedy=f"name the targets that have it; `provision add TARGET {name}` "
            "adds it",
        )
    return having


def move_cutoff(path: Path, package: str | None, day: dt.date) -> Target:
    """Move the cut-off in a spec file, of one distribution of the default index or of all."""
    target, name = load_spec(path), str(canonicalize_name(package)) if package else None
    if name and (index := target.pip.index_of(name)) != "default":
        raise UsageError(
            f"{package} does not come from the default index",
            cause=f"{target.name} takes it from the catalog {index}, which has no "
            "cut-off",
            remedy="`provision update`, then name the new version in the spec",
        )
    with pip_table(path) as pip:
        if name is None:
            pip["cutoff"] = day
            pip.pop(
                "cutoffs", None
            )  # single cut-offs would now hold their packages back
        else:
            pip.setdefault("cutoffs", tomlkit.inline_table())[name] = day
    return load_spec(path)


def _name(requirement: str) -> str:
    found = re.match(r"\s*([A-Za-z0-9][\w.-]*)", requirement)
    return str(canonicalize_name(found[1])) if found else ""


def _required(path: Path) -> set[str]:
    return {_name(requirement) for requirement in load_spec(path).pip.requirements}


def _places(listed: Sequence[str], name: str) -> list[int]:
    return [
        place for place, text in enumerate(listed) if name and _name(str(text)) == name
    ]


def _take(table: Any, key: str, name: str) -> None:  # noqa: ANN401 - of tomlkit
    for place in reversed(_places(table.get(key, ()), name)):
        del table[key][place]
        if not table[key]:
            del table[key]


def _text(path: Path) -> str:
    return decoded(path.read_bytes())  # with the line ends that it has


def edit_and_lock(
    names: Sequence[str],
    edit: Callable[[Path], Target],
    project: Project,
    resolver: Resolver,
) -> list[LockResult]:
    """Edit the specs of some targets and lock them; if one fails, all stay as they were."""
    specs = [project.specs / f"{name}.toml" for name in names]
    locks = [
        project.lock(name) / layer
        for name in names
        for layer in (PIP_LAYER, CONDA_LAYER)
    ]
    with _restored([*specs, *locks]):
        results = lock([edit(path) for path in specs], project, resolver)
        if error := next((result.error for result in results if result.error), None):
            raise error
    return results


@contextlib.contextmanager
def _restored(paths: Sequence[Path]) -> Iterator[None]:
    """Give files their content back if the body fails or is interrupted."""
    before = {path: _text(path) if path.is_file() else None for path in paths}
    try:
        yield
    except BaseException as error:
        now = {path: _text(path) if path.is_file() else None for path in paths}
        changed = [path for path in paths if now[path] != before[path]]
        for path in changed:
            if (text := before[path]) is None:
                path.unlink()
            else:
                write_atomic(path, text)
        if isinstance(error, ProvisionError) and changed:
            error.evidence += f"\nput back as before: {', '.join(map(str, changed))}"
        raise
