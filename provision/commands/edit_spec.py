"""Edit specs, then lock their targets; what cannot be locked stays as it was."""

import contextlib
import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from packaging.utils import canonicalize_name

from provision.commands.build_request import BuildResult
from provision.commands.edit_journal import Edits, editing, rewrite
from provision.commands.edit_lines import distribution
from provision.commands.freshness import lockable_names
from provision.commands.lock import LockResult, lock
from provision.core.errors import ProvisionError, SpecError, UsageError
from provision.core.limits import decoded
from provision.core.project import Project
from provision.lockfile.pip import PIP_LAYER, Artifact, read_lock
from provision.lockfile.requirers import THE_SPEC
from provision.resolver.resolver import Resolver
from provision.spec.model import Target
from provision.spec.pyproject import relative
from provision.spec.reader import load_spec, load_target, load_targets, target_names

# In a remedy; see provision.resolver.ways_out.
_CHANGE = re.compile(r"change (\S+, line \d+(?: or \S+, line \d+)*)")
_TRY_AGAIN = "check the name and the version, then run `provision add` again"


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
    document = tomlkit.parse(text_of(path))
    yield document.setdefault(
        "pip", tomlkit.table()
    )  # absent where a spec extends another
    rewrite(path, tomlkit.dumps(document))


def add_to(path: Path, requirements: Sequence[str], index: str | None = None) -> Target:
    """Add requirements to a spec file, or replace those of the same distributions."""
    load_spec(path)
    with pip_table(path) as pip:
        listed = pip.setdefault("requirements", [])
        for requirement in requirements:
            name = distribution(requirement)
            same = []
            for place, text in enumerate(listed):
                if name and distribution(text) == name:
                    same.append(place)
            if len(same) == 1:
                listed[same[0]] = requirement
            elif requirement not in listed:  # several differ by their markers
                listed.append(requirement)
            take(pip, "drop", name)
            take(pip, "exclude", name)
            if index:
                table = pip.setdefault("index", {})
                for other in list(table):
                    take(table, other, name)
                table.setdefault(index, []).append(name)
    return load_spec(path)


def remove_from(path: Path, names: Sequence[str]) -> Target:
    """Remove requirements from a spec file; UsageError if it has no such distribution."""
    require_required(path, names)
    gone = list(map(distribution, names))
    with pip_table(path) as pip:
        for name in gone:
            take(pip, "requirements", name)
    required = _required(path)
    inherited = [name for name in gone if name in required]
    if inherited:
        with pip_table(path) as pip:
            pip.setdefault("drop", []).extend(inherited)
    return load_spec(path)


def require_required(path: Path, names: Iterable[str]) -> None:
    """Raise UsageError if a spec, with all that it refers to, does not require something."""
    required = _required(path)
    absent = [name for name in map(distribution, names) if name not in required]
    if absent:
        raise UsageError(
            f"{path} does not require {', '.join(absent)}",
            cause=f"it requires {', '.join(sorted(required))}",
            remedy="name one of these; what only these require goes with them",
        )


def named_targets(project: Project, named: str) -> list[str]:
    """Return a target that was named, or those that `all` means."""
    return lockable_names(project) if named == "all" else [named]


def still_locked(
    project: Project, targets: Iterable[str], words: Iterable[str]
) -> Iterator[str]:
    """Yield what stays in the locks of targets though it was removed, and why."""
    names = set(map(distribution, words))
    for target in targets:
        for artifact in read_lock(project.lock(target)).artifacts:
            if artifact.name in names:
                users = ", ".join(artifact.via)
                yield f"{target}: {artifact.name} stays in the lock, for {users}"


def locked_for_others(
    project: Project, targets: Iterable[str], words: Iterable[str]
) -> list[tuple[str, Artifact]]:
    """Return what targets have locked of some requirements, only because packages require it."""
    names = set(map(distribution, words))
    found = []
    for target in targets:
        with contextlib.suppress(SpecError):  # no lock, or none that can be read
            for artifact in read_lock(project.lock(target)).artifacts:
                if artifact.name in names and THE_SPEC not in artifact.via:
                    found.append((target, artifact))
    return found


def now_required(
    project: Project, before: Iterable[tuple[str, Artifact]]
) -> Iterator[str]:
    """Yield what an edit added whose locked version stayed, for :func:`locked_for_others`."""
    for target, artifact in before:
        name, version = artifact.name, artifact.version
        if read_lock(project.lock(target)).versions.get(name) == version:
            users = ", ".join(artifact.via)
            was = f"{name} {version} was locked already, required by {users}"
            yield f"{target}: {was}; it is a requirement of the project now"


def upgradable(project: Project, named: Sequence[str], package: str) -> list[str]:
    """Return the targets that have a package, of all if none is named; UsageError if one lacks."""
    if package in target_names(project.specs):
        targets = " ".join([*named, package])
        raise UsageError(
            f"--upgrade took {package} for a package, and it is a target",
            remedy=f"name targets first: `provision lock {targets} --upgrade`",
        )
    name = canonicalize_name(package)
    having, lacking = [], []
    for target in named or lockable_names(project):
        if name in read_lock(project.lock(target)).versions:
            having.append(target)
        else:
            lacking.append(target)
    if not having or (named and lacking):
        raise UsageError(
            f"no package {package} to upgrade in {', '.join(lacking)}",
            remedy=f"name the targets that have it; `provision add TARGET {name}` "
            "adds it",
        )
    return having


def move_cutoff(path: Path, package: str | None, day: dt.date) -> Target:
    """Move the cut-off in a spec file, of one distribution of the default index or of all."""
    target = load_spec(path)
    if not package:
        with pip_table(path) as pip:
            pip["cutoff"] = day
            # Single cut-offs would now hold their packages back.
            pip.pop("cutoffs", None)
        return load_spec(path)
    name = canonicalize_name(package)
    index = target.pip.index_of(name)
    if index != "default":
        raise UsageError(
            f"{package} does not come from the default index",
            cause=f"{target.name} takes it from the catalog {index}, which has no "
            "cut-off",
            remedy="`provision update`, then name the new version in the spec",
        )
    with pip_table(path) as pip:
        pip.setdefault("cutoffs", tomlkit.inline_table())[name] = day
    return load_spec(path)


def _required(path: Path) -> set[str]:
    return set(map(distribution, load_spec(path).pip.requirements))


def take(table: Any, key: str, name: str) -> None:  # noqa: ANN401 - of tomlkit
    """Remove a distribution from a list of a table, and the list where it becomes empty."""
    if name:
        take_where(table, key, lambda text: distribution(text) == name)


def take_where(
    table: Any,  # noqa: ANN401 - of tomlkit
    key: str,
    is_gone: Callable[[str], bool],
) -> None:
    """Remove some entries from a list of a table, and the list where it becomes empty."""
    listed = table.get(key, ())
    for place in reversed(range(len(listed))):
        if is_gone(listed[place]):
            del listed[place]
            if not listed:
                del table[key]


def text_of(path: Path) -> str:
    """Return the text of a file, with the line ends that it has."""
    return decoded(path.read_bytes())


def edit_and_lock(
    names: Sequence[str],
    edit: Callable[[Path], object],
    project: Project,
    resolver: Resolver,
) -> list[LockResult]:
    """Edit some targets, and lock them and all that share an edited file.

    If one of them fails, all files are as they were.
    """
    with editing(project, resolver.progress) as edits:
        every = target_names(project.specs)
        _, broken_before = load_targets(project.specs, every)
        for name in names:
            edit(project.specs / f"{name}.toml")
        _, broken = load_targets(project.specs, every)
        for name, error in broken.items():
            if name not in broken_before:  # the edit took what another target relies on
                raise error
        edited = edits.changed
        if edited:
            places = ", ".join(relative(path, project.root) for path in edited)
            resolver.progress.step(f"edited {places}")
        users = [*names, *_users(project, edited, names)]
        targets = [load_target(project.specs, name) for name in users]
        results = lock(targets, project, resolver, edits=edits)
        for result in results:
            if result.error:
                _fit_to_undone(result.error, edits)
                raise result.error
    return results


def _fit_to_undone(error: ProvisionError, edits: Edits) -> None:
    """Let a remedy name lines as they are when the edits are undone, and none that is gone then."""

    def corrected(match: re.Match[str]) -> str:
        stay = []
        for place in match[1].split(" or "):
            name, _, number = place.rpartition(", line ")
            before, now = edits.lines(edits.root / name)
            if now is None:
                stay.append(place)
            elif (line := now[int(number) - 1]) in before:
                stay.append(f"{name}, line {before.index(line) + 1}")
        steps = [f"change {' or '.join(stay)}"] if stay else []
        if len(stay) < match[1].count(", line "):
            steps.append(_TRY_AGAIN)
        return ", or ".join(steps)

    error.remedy = _CHANGE.sub(corrected, error.remedy)


def _users(
    project: Project, changed: Collection[Path], names: Sequence[str]
) -> Iterator[str]:
    """Yield the other targets that have a lock, and read a changed file."""
    others = [name for name in lockable_names(project) if name not in names]
    targets, _ = load_targets(project.specs, others)
    for target in targets:
        inputs = (*target.inputs.specs, *target.inputs.digests)
        paths = {(project.root / name).resolve() for name in inputs}
        is_locked = (project.lock(target.name) / PIP_LAYER).is_file()
        if is_locked and not paths.isdisjoint(changed):
            yield target.name
