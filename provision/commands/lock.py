"""The verb ``lock``: resolve specs to locks; the same input gives the same bytes anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from provision.catalog.digest import catalog_digest
from provision.core.errors import ProvisionError, SpecError
from provision.core.filesystem import write_atomic
from provision.core.interruption import in_threads
from provision.core.locking import folder_lock, waiting
from provision.core.project import Project
from provision.core.temporary import remove_litter
from provision.lockfile.pip import (
    CONDA_LAYER,
    PIP_LAYER,
    Artifact,
    Lock,
    parse_lock,
    read_lock,
)

if TYPE_CHECKING:
    from provision.resolver.resolver import Resolver
    from provision.spec.model import Target

_WORKERS = 8  # more than the cores of a small machine: resolvers mostly wait for the network, and
# with 4 all eleven targets took half as long again (interleaved runs on two busy cores)


@dataclass(frozen=True, slots=True)
class ArtifactChange:
    """The change of one distribution."""

    name: str
    """The distribution."""
    before: str | None
    """Version in the old lock; null where it is added."""
    after: str | None
    """Version in the new lock; null where it is removed."""
    via: tuple[str, ...]
    """What requires it, or required it."""

    @property
    def kind(self) -> str:
        """``added``, ``removed``, ``up``, ``down``, or ``file`` where only the wheel changed."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        if self.before == self.after:  # another build of one version has another hash
            return "file"
        return "up" if Version(self.after) > Version(self.before) else "down"


def diff_artifacts(
    before: Sequence[Artifact], after: Sequence[Artifact]
) -> list[ArtifactChange]:
    """Return the differences between two locks, by name."""
    old, new = (
        {artifact.name: artifact for artifact in side} for side in (before, after)
    )
    pairs = ((name, old.get(name), new.get(name)) for name in sorted(old | new))
    return [
        ArtifactChange(
            name,
            a.version if a else None,
            b.version if b else None,
            (b or a).via,  # type: ignore[union-attr]
        )
        for name, a, b in pairs
        if not (a and b and a.sha256 == b.sha256)
    ]


@dataclass(frozen=True, slots=True)
class LockResult:
    """What ``lock`` did, or would do, for one target."""

    target: str
    """Name of the target."""
    packages: int = 0
    """Number of distributions in the new pip layer."""
    changes: tuple[ArtifactChange, ...] = ()
    """Differences to the old pip layer, by name."""
    differs: bool = False
    """Whether any byte of the new lock differs from the old one."""
    error: ProvisionError | None = None
    """Why there is no new lock; the old one is unchanged then."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether a target's lock is up to date."""

    target: str
    """Name of the target."""
    stale: str | None
    """Why it is stale; null where it is fresh."""
    error: ProvisionError | None = None
    """What is wrong with its spec, if that cannot be read."""
    open: tuple[str, ...] = ()
    """Wheels whose RECORD the lock does not have."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether a second resolver agrees with a target's lock."""

    target: str
    """Name of the target."""
    differences: tuple[ArtifactChange, ...]
    """What it resolves differently; empty where it agrees."""


def lock(
    targets: Sequence[Target],
    project: Project,
    resolver: Resolver,
    *,
    write: bool = True,
) -> list[LockResult]:
    """Lock targets in parallel, and write each lock whole or not at all."""

    def lock_one(target: Target) -> LockResult:
        waits = waiting(f"the lock of {target.name}", resolver.progress)
        try:
            if not write:
                return _lock(target, project.lock(target.name), resolver, write=False)
            # Beside the project's other caches: what is in lockfiles/ gets committed.
            with folder_lock(
                project.root / ".cache", waits, name=f"lock-{target.name}.lock"
            ):
                remove_litter(project.lock(target.name))
                return _lock(target, project.lock(target.name), resolver, write=True)
        except ProvisionError as error:
            return LockResult(target.name, error=error)
        finally:
            resolver.progress.step("")

    # Errors are results: one target that cannot be resolved must not cost the locks of the others.
    # Conda layers take several times as long as the rest: started last, they would run alone.
    longest_first = sorted(targets, key=lambda target: not target.conda)
    locked = {
        done.target: done for done in in_threads(lock_one, longest_first, _WORKERS)
    }
    return [locked[target.name] for target in targets]


def part_fresh(
    targets: Sequence[Target], project: Project
) -> tuple[list[Target], list[LockResult]]:
    """Return the targets whose lock is stale, and the results of the others."""
    stale = []
    results = []
    for target, freshness in zip(
        targets, check_freshness(targets, project), strict=True
    ):
        if freshness.stale:
            stale.append(target)
        else:
            packages = len(read_lock(project.lock(target.name)).artifacts)
            results.append(LockResult(target.name, packages))
    return stale, results


def _lock(
    target: Target, folder: Path, resolver: Resolver, *, write: bool
) -> LockResult:
    old: Lock | None = None
    with suppress(SpecError):  # absent, or no longer readable: the new lock replaces it
        old = read_lock(folder)
    before = old.artifacts if old else ()
    pip, conda = resolver.resolve(target, before)
    new = parse_lock(folder, pip, conda)
    _check(target, new, resolver.folder)
    path, after = folder / PIP_LAYER, new.artifacts
    # By bytes, not by digest: a new resolver or header changes the file and not the packages.
    same = old and path.read_bytes() == pip.encode() and old.conda == conda
    if write and not same:
        _write(folder, pip, conda)
    return LockResult(
        target.name, len(after), tuple(diff_artifacts(before, after)), differs=not same
    )


def _check(target: Target, new: Lock, catalog: Path) -> None:
    # Imported here: `lock --check`, and a build with nothing to do, need neither.
    from provision.catalog.snapshot import Index, load_snapshot  # noqa: PLC0415
    from provision.doctor.locked import refuse_lock  # noqa: PLC0415

    snapshots = [load_snapshot(catalog, index, Index) for index in target.pip.index]
    requires = {
        w.filename: w.requires_dist or () for one in snapshots for w in one.files
    }
    refuse_lock(target, new, requires)


def _write(folder: Path, pip: str, conda: str | None) -> None:
    # Two files cannot be replaced in one step. The pip layer has the digest of the conda layer, and
    # is written last: if the process dies in between, the digest differs and the lock is refused.
    if conda is None:
        (folder / CONDA_LAYER).unlink(missing_ok=True)
    else:
        write_atomic(folder / CONDA_LAYER, conda)
    write_atomic(folder / PIP_LAYER, pip)


def check_freshness(targets: Sequence[Target], project: Project) -> list[Freshness]:
    """Return which locks are stale, by comparing digests: no network and no process."""
    found = []
    for target in targets:
        try:
            locked = read_lock(project.lock(target.name))
            names = tuple(artifact.name for artifact in locked.open)
            stale = staleness(target, project.catalog, locked)
            found.append(Freshness(target.name, stale, open=names))
        except SpecError as error:
            found.append(Freshness(target.name, error.what))
    return found


def confirm_with_pip_tools(
    target: Target, project: Project, resolver: Resolver
) -> Confirmation:
    """Resolve a target with pip-tools, constrained to the locked versions."""
    locked = read_lock(project.lock(target.name)).versions
    found = resolver.resolve_with_pip_tools(target, locked)
    differences = (
        ArtifactChange(name, locked.get(name), *found.get(name, (None, ())))
        for name in sorted(locked.keys() | found.keys())
    )
    return Confirmation(
        target.name, tuple(d for d in differences if d.before != d.after)
    )


def staleness(target: Target, folder: Path, lock: Lock) -> str | None:
    """Return why a lock is stale, or None; needs no network and no process."""
    if lock.header.get("spec") != target.digest():
        return f"envs/{target.name}.toml changed since it was locked"
    if target.pip.local:
        from provision.spec.local import local_digest  # noqa: PLC0415 - few specs have any

        own = local_digest(target, folder.parents[1])
        if (
            own and lock.header.get("local-digest") != own
        ):  # in an image or a bundle there is none
            return "the requirements of an own package changed since it was locked"
    if lock.header.get("catalog") != catalog_digest(folder, target):
        return "the catalog changed since it was locked"
    return None
