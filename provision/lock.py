"""Spec and catalog -> lock: the same wish gives the same bytes, on any machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from provision import catalog, lockfile, web
from provision.engines import loopback, uv_lock
from provision.errors import SpecError
from provision.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from provision.catalog import Wheel
    from provision.engines.uv_lock import Pick
    from provision.lockfile import Artifact, Lock
    from provision.progress import Progress
    from provision.project import Project
    from provision.run import Run
    from provision.sources import Sources
    from provision.spec import Target


@dataclass(frozen=True, slots=True)
class Change:
    """What locking did to one distribution.

    Attributes:
        name: Distribution.
        before: Version in the old lock; None where it is new.
        after: Version in the new lock; None where it is gone.
        via: Who asks for it, or asked.
    """

    name: str
    before: str | None
    after: str | None
    via: tuple[str, ...]

    @property
    def kind(self) -> str:
        """``added``, ``removed``, ``up``, ``down``, or ``file`` where only the wheel changed."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        if self.before == self.after:
            return "file"
        return "up" if Version(self.after) > Version(self.before) else "down"


@dataclass(frozen=True, slots=True)
class LockResult:
    """What ``lock`` did for one target.

    Attributes:
        target: Its name.
        packages: How many distributions are locked.
        changes: What changed, by name.
        rewritten: Whether any byte of the lock changed.
    """

    target: str
    packages: int
    changes: tuple[Change, ...]
    rewritten: bool


def lock(
    target: Target, project: Project, *, sources: Sources, run: Run, progress: Progress
) -> LockResult:
    """Lock a target and write the result into its folder.

    Raises:
        SpecError: The spec cannot be met; nothing was written.
        ToolError: The resolver or the network failed; nothing was written.
    """
    folder = project.lock(target.name)
    before = _previous(folder)
    text = compile_pip(target, project.catalog, before, sources=sources, run=run, progress=progress)
    path = folder / lockfile.PIP_LAYER
    rewritten = not path.is_file() or path.read_text(encoding="utf-8") != text
    if rewritten:
        write_atomic(path, text)
    after = lockfile.read(folder).artifacts
    return LockResult(target.name, len(after), tuple(changes(before, after)), rewritten)


def _previous(folder: Path) -> tuple[Artifact, ...]:
    try:
        return lockfile.read(folder).artifacts
    except SpecError:
        return ()  # absent, or not readable any more: the new one replaces it


def compile_pip(
    target: Target,
    folder: Path,
    known: Sequence[Artifact],
    *,
    sources: Sources,
    run: Run,
    progress: Progress,
) -> str:
    """Return the text of a target's pip layer.

    Args:
        target: The wish.
        folder: The catalog.
        known: Artifacts whose sizes need not be asked for again.
        sources: Where the default index's packages come from.
        run: The door.
        progress: Told about the steps.

    Raises:
        SpecError: The spec cannot be met.
        ToolError: The resolver or the network failed.
    """
    wheels = offered(target, folder)
    digest = catalog.digest(folder, target.pip.index)
    progress.step(f"{target.name}: resolving")
    with loopback.serve(wheels, digest) as indexes:
        found = uv_lock.resolve(target, indexes, sources.index_url, run)
    if not isinstance(found, list):
        raise SpecError(
            f"the requirements of {target.name} cannot be met together",
            evidence=found.stderr.strip(),
            remedy=f"change a requirement in envs/{target.name}.toml",
        )
    progress.step(f"{target.name}: sizes")
    artifacts = _artifacts(target, found, wheels, {a.sha256: a.size for a in known})
    return lockfile.render(header(target, digest), artifacts)


def offered(target: Target, folder: Path) -> dict[str, tuple[Wheel, ...]]:
    """Return the files that each catalog index may offer to a target.

    Raises:
        SpecError: A name is assigned to an index whose catalog cannot serve it. Without this a
            resolver would go on to the default index, and take a stranger's package there.
    """
    return {
        index: tuple(wheel for name in names for wheel in _of(target, folder, index, name))
        for index, names in target.pip.index.items()
    }


def _of(target: Target, folder: Path, index: str, name: str) -> list[Wheel]:
    listed = catalog.load(folder, index).of(name)
    if wheels := [wheel for wheel in listed if wheel.lockable]:
        return wheels
    raise SpecError(
        f"{target.name}: the catalog of {index} has no usable file of {name}",
        evidence="\n".join(f"{wheel.filename}: {_lacking(wheel)}" for wheel in listed),
        cause=f"[pip.index] says that {name} comes from {index} and nowhere else",
        remedy="`provision update` asks the index; or correct [pip.index]",
    )


def _lacking(wheel: Wheel) -> str:
    return "its requirements are unknown" if wheel.sha256 else "its SHA-256 is unknown"


def header(target: Target, digest: str) -> dict[str, str]:
    """Return what the first lines of a lock tell."""
    return {
        "spec": target.digest(),
        "catalog": digest,
        "cutoff": target.pip.cutoff.isoformat(),
        "engine": uv_lock.version(),
        "platform": target.platform,
        "python": target.python,
        "command": f"provision lock {target.name}",
    }


def _artifacts(
    target: Target,
    picks: Sequence[Pick],
    wheels: Mapping[str, Sequence[Wheel]],
    known: Mapping[str, int | None],
) -> list[Artifact]:
    listed = {wheel.sha256 for files in wheels.values() for wheel in files}
    unsized = [p.url for p in picks if _size(p, known) is None and p.sha256 not in listed]
    asked = web.sizes(unsized)
    return [
        lockfile.Artifact(
            name=pick.name,
            version=pick.version,
            filename=pick.filename,
            sha256=pick.sha256,
            size=_size(pick, known) or asked.get(pick.url),
            index=target.pip.index_of(pick.name),
            via=pick.via,
        )
        for pick in picks
    ]


def _size(pick: Pick, known: Mapping[str, int | None]) -> int | None:
    return pick.size or known.get(pick.sha256)


def changes(before: Sequence[Artifact], after: Sequence[Artifact]) -> list[Change]:
    """Return what differs between two locks, by name."""
    old, new = ({artifact.name: artifact for artifact in side} for side in (before, after))
    differing = [
        name
        for name in sorted(old | new)
        if name not in old or name not in new or old[name].sha256 != new[name].sha256
    ]
    return [
        Change(
            name,
            before=old[name].version if name in old else None,
            after=new[name].version if name in new else None,
            via=(new if name in new else old)[name].via,
        )
        for name in differing
    ]


def staleness(target: Target, folder: Path, lock: Lock) -> str | None:
    """Return why a lock no longer answers its spec, or None; reads no network and runs nothing.

    Args:
        target: The spec.
        folder: The catalog.
        lock: What lies in the target's lock folder.

    Raises:
        SpecError: A catalog that the target uses is missing or is no JSON.
    """
    if lock.header.get("spec") != target.digest():
        return f"envs/{target.name}.toml changed since it was locked"
    if lock.header.get("catalog") != catalog.digest(folder, target.pip.index):
        return "the catalog changed since it was locked"
    return None
