"""The verb ``lock``: resolve specs to locks; the same input gives the same bytes anywhere."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from provision.catalog.snapshot import Index, load_snapshot
from provision.commands.edit_journal import Edits
from provision.commands.freshness import check_freshness
from provision.commands.known_wrong import known_wrong_of
from provision.core.errors import ProvisionError, SpecError
from provision.core.filesystem import write_atomic
from provision.core.interruption import in_threads
from provision.core.locking import folder_lock, waiting
from provision.core.project import Project
from provision.core.temporary import remove_litter
from provision.doctor.locked import refuse_lock
from provision.lockfile.pip import (
    CONDA_LAYER,
    PIP_LAYER,
    Artifact,
    Lock,
    parse_lock,
    read_lock,
)
from provision.resolver.resolver import Resolver
from provision.spec.model import Target

Writer = Callable[[Path, bytes | None], None]  # of a file; None removes it
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
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        if self.before == self.after:  # another build of one version has another hash
            return "file"
        return "up" if Version(self.after) > Version(self.before) else "down"


def diff_artifacts(
    before: Sequence[Artifact], after: Sequence[Artifact]
) -> list[ArtifactChange]:
    """Return the differences between two locks, by name."""
    old = {artifact.name: artifact for artifact in before}
    new = {artifact.name: artifact for artifact in after}
    changes = []
    for name, latest in sorted((old | new).items()):
        was, now = old.get(name), new.get(name)
        if was and now and was.sha256 == now.sha256:
            continue
        before_version = was.version if was else None
        after_version = now.version if now else None
        changes.append(ArtifactChange(name, before_version, after_version, latest.via))
    return changes


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

    @property
    def is_first(self) -> bool:
        """Whether there was no lock before: each package is added."""
        added = [change for change in self.changes if change.kind == "added"]
        return len(added) == self.packages > 0


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
    edits: Edits | None = None,
) -> list[LockResult]:
    """Lock targets in parallel, and write each lock whole or not at all, as part of some edits."""

    def lock_one(target: Target) -> LockResult:
        folder = project.lock(target.name)
        try:
            if not write:
                return _lock(target, folder, resolver, None)
            # Beside the project's other caches: what is in lockfiles/ gets committed.
            cache, name = project.root / ".cache", f"lock-{target.name}.lock"
            waits = waiting(f"the lock of {target.name}", resolver.progress)
            with folder_lock(cache, waits, name=name):
                remove_litter(folder)
                writer = edits.write if edits else _write_file
                return _lock(target, folder, resolver, writer)
        except ProvisionError as error:
            return LockResult(target.name, error=error)
        finally:
            resolver.progress.step("")

    # Errors are results: one target that cannot be resolved must not cost the locks of the others.
    # Conda layers take several times as long as the rest: started last, they would run alone.
    longest_first = sorted(targets, key=lambda target: not target.conda)
    results = in_threads(lock_one, longest_first, _WORKERS)
    by_name = {result.target: result for result in results}
    return [by_name[target.name] for target in targets]


def part_fresh(
    targets: Sequence[Target], project: Project
) -> tuple[list[Target], list[LockResult]]:
    """Return the targets whose lock is stale, and the results of the others."""
    stale = []
    results = []
    checked = check_freshness(targets, project)
    for target, freshness in zip(targets, checked, strict=True):
        if freshness.stale:
            stale.append(target)
        else:
            packages = len(read_lock(project.lock(target.name)).artifacts)
            results.append(LockResult(target.name, packages))
    return stale, results


def _lock(
    target: Target, folder: Path, resolver: Resolver, writer: Writer | None
) -> LockResult:
    """Resolve a spec, check the new lock, and write it where any byte of it differs."""
    old: Lock | None = None
    with suppress(SpecError):  # absent, or no longer readable: the new lock replaces it
        old = read_lock(folder)
    before = old.artifacts if old else ()
    pip, conda = resolver.resolve(target, before)
    new = _checked_lock(target, folder, resolver.folder, pip, conda)
    torch = new.versions.get("torch", "")
    for line in known_wrong_of(target, torch, resolver.folder):
        resolver.progress.note(f"{target.name}: {line}")
    # By bytes, not by digest: a new resolver or header changes the file and not the packages.
    pip_file = folder / PIP_LAYER
    same = old and old.conda == conda and pip_file.read_bytes() == pip.encode()
    if writer and not same:
        # Two files cannot be replaced in one step. The pip layer has the digest of the conda layer,
        # and is written last: if the process dies in between, the digest differs and the lock is
        # refused.
        writer(folder / CONDA_LAYER, conda.encode() if conda is not None else None)
        writer(folder / PIP_LAYER, pip.encode())
    changes = tuple(diff_artifacts(before, new.artifacts))
    return LockResult(target.name, len(new.artifacts), changes, differs=not same)


def resolve_lock(
    target: Target, folder: Path, resolver: Resolver, known: Sequence[Artifact]
) -> Lock:
    """Resolve a spec to a lock of a folder, which is not written; SpecError if it has none.

    Sizes and RECORDs of ``known`` are not looked up again.
    """
    pip, conda = resolver.resolve(target, known)
    return _checked_lock(target, folder, resolver.folder, pip, conda)


def _checked_lock(
    target: Target, folder: Path, catalog: Path, pip: str, conda: str | None
) -> Lock:
    """Return the lock of two texts; SpecError if its packages do not work together."""
    lock = parse_lock(folder, pip, conda)
    requirements: dict[str, tuple[str, ...]] = {}
    for index in target.pip.index:
        for wheel in load_snapshot(catalog, index, Index).files:
            requirements[wheel.filename] = wheel.requires_dist or ()
    refuse_lock(target, lock, requirements, catalog.parents[1])
    return lock


def _write_file(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_atomic(path, content)


def confirm_with_pip_tools(
    target: Target, project: Project, resolver: Resolver
) -> Confirmation:
    """Resolve a target with pip-tools, constrained to the locked versions."""
    locked = read_lock(project.lock(target.name)).versions
    resolved = resolver.resolve_with_pip_tools(target, locked)
    differences = []
    for name in sorted(locked.keys() | resolved.keys()):
        after, via = resolved.get(name, (None, ()))
        if locked.get(name) != after:
            differences.append(ArtifactChange(name, locked.get(name), after, via))
    return Confirmation(target.name, tuple(differences))
