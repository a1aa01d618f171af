"""Whether a lock is up to date: by digests, without a network or a process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.catalog.digest import catalog_digest
from provision.core.errors import ProvisionError, SpecError
from provision.core.program import program_name
from provision.core.project import Project
from provision.environment.manifest import current_generation
from provision.lockfile.pip import PIP_LAYER, Lock, read_lock
from provision.spec.local import archive_digests, input_digests, local_digest
from provision.spec.model import Target
from provision.spec.reader import load_targets, misnamed_specs, target_names


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether a target's lock is up to date."""

    target: str
    """Name of the target."""
    stale: str | None
    """Why it is stale; null where it is fresh."""
    error: ProvisionError | None = None
    """What is wrong with its spec, if that cannot be read."""
    without_record: tuple[str, ...] = ()
    """Wheels whose RECORD the lock does not have."""


def check_freshness(targets: Sequence[Target], project: Project) -> list[Freshness]:
    """Return which locks are stale, by comparing digests: no network and no process."""
    results = []
    for target in targets:
        try:
            locked = read_lock(project.lock(target.name))
            names = tuple(artifact.name for artifact in locked.open)
            stale = staleness(target, project.catalog, locked)
            results.append(Freshness(target.name, stale, without_record=names))
        except SpecError as error:
            results.append(Freshness(target.name, error.what))
    return results


def lockable_names(project: Project) -> list[str]:
    """Return the targets of a project, without those that wait for a hash and have no lock."""
    names = target_names(project.specs)
    targets, _ = load_targets(project.specs, names)
    waiting = {target.name for target in targets if target.status == "unlocked"}
    lockable = []
    for name in names:
        if name not in waiting or project.lock(name).is_dir():
            lockable.append(name)
    return lockable


def chosen_targets(
    project: Project, named: Sequence[str]
) -> tuple[list[Target], dict[str, SpecError]]:
    """Return the targets that are named, or all lockable ones, and the error of each other spec."""
    if named:
        return load_targets(project.specs, named)
    targets, broken = load_targets(project.specs, lockable_names(project))
    return targets, broken | misnamed_specs(project.specs)


def staleness(target: Target, folder: Path, lock: Lock) -> str | None:
    """Return why a lock is stale, or None; needs no network and no process."""
    changed = _changed_input(target, folder, lock)
    return f"{changed} changed since it was locked" if changed else None


def _changed_input(target: Target, catalog: Path, lock: Lock) -> str:
    """Return what is another than when a lock was made, "" for nothing."""
    root = catalog.parents[1]
    if lock.header.get("spec") != target.digest():
        specs = target.inputs.specs or [f"envs/{target.name}.toml"]
        return _changed(input_digests(target, root), lock) or " or ".join(specs)
    if target.pip.local:
        digest = local_digest(target, root)
        # In an image or a bundle there is none.
        if digest and lock.header.get("local-digest") != digest:
            changed = _changed(input_digests(target, root), lock)
            return changed or "the requirements of an own package"
    # Of what the project has as a file, the spec has only the path.
    changed = _changed(archive_digests(target, root), lock)
    if changed:
        return changed
    if lock.header.get("catalog") != catalog_digest(catalog, target):
        return "the catalog"
    return ""


def note_on_lock(target: Target, project: Project) -> str:
    """Return which change the environment in use does not have, and the commands; "" for none.

    A lock or a record that is absent or damaged is not compared: other verbs report it.
    """
    name, program = target.name, program_name()
    build = f"`{program} build {name}`"
    try:
        lock = read_lock(project.lock(name))
        why = staleness(target, project.catalog, lock)
        built = current_generation(project.environments(name))
    except SpecError:
        return ""
    if why:
        then = f", then {build}" if built else ""
        return f"{name}: {why}; `{program} lock {name}`{then}"
    if built and built.record.lock != lock.digest:
        path = f"lockfiles/{name}/{PIP_LAYER}"
        return f"{name}: the environment in use is not that of {path}; {build}"
    return ""


def _changed(digests: Mapping[str, str], lock: Lock) -> str:
    """Return the files beside the spec, by their digests, that are others than when it was locked."""
    locked = {}
    for entry in lock.header.get("inputs", "").split(", "):
        path, _, digest = entry.rpartition(" ")
        locked[path] = digest
    changed = []
    for path, digest in digests.items():
        if locked.get(path, digest) != digest:
            changed.append(path)
    return " and ".join(changed)
