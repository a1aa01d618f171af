"""The locks that a search compares: each has another release of one package, and is not written."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename
from packaging.version import InvalidVersion, Version

from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.commands.lock import resolve_lock
from provision.core.errors import (
    ProvisionError,
    SpecError,
    ToolError,
    UsageError,
)
from provision.core.interruption import in_threads
from provision.core.progress import Look, Progress
from provision.doctor.rules.companions import COMPANIONS, TRITONS
from provision.lockfile.pip import Lock
from provision.lockfile.tags import best_wheel
from provision.resolver.resolver import Resolver
from provision.resolver.sources import served_wheel
from provision.spec.model import Override, Target, requirement_name

_WORKERS = 8  # as of `lock`: resolvers mostly wait


@dataclass(frozen=True, slots=True)
class Candidate:
    """One release, the target that requires it, and its lock."""

    version: str
    target: Target
    lock: Lock | None
    error: ProvisionError | None = None  # why it has no lock

    @property
    def why(self) -> str:
        """Why it has no lock, in one line."""
        return in_one_line(self.error) if self.error else ""


def in_one_line(error: ProvisionError) -> str:
    """Return an error in one line: with its cause where that is the spec's, else what was seen."""
    more = error.cause if isinstance(error, SpecError) else error.evidence
    first = more.partition("\n")[0]
    return f"{error.what}: {first}" if first else error.what


class _Steps:
    """Progress without notes: what is to be said of a lock is said of the present one."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def step(self, text: str, look: Look = dict) -> None:
        self._progress.step(text, look)

    def note(self, text: str) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class CandidateLocks:
    """Locks the releases of a package, beside the present lock."""

    target: Target
    package: str
    present: Lock
    resolver: Resolver

    def of(self, versions: Sequence[str]) -> list[Candidate]:
        """Return a candidate for each version, in their order.

        SpecError: none but the present one can be locked; ToolError: because a tool failed.
        """
        made = in_threads(self._candidate, versions, _WORKERS)
        others = [each for each in made if each.lock is not self.present]
        if others and all(each.error for each in others):
            raise self._none(others)
        return made

    def _none(self, others: Sequence[Candidate]) -> ProvisionError:
        """Return the error where no other release can be locked: of a tool, if one failed."""
        errors = [each.error for each in others if each.error]
        for error in errors:
            if isinstance(error, ToolError):
                return error
        lines = [f"{each.version}: {each.why}" for each in others]
        here = self.present.versions[self.package]
        return SpecError(
            f"{self.target.name}: no release of {self.package} but {here} can be locked",
            evidence="\n".join(lines),
            cause=errors[-1].cause,
            remedy=errors[-1].remedy,
        )

    def _candidate(self, version: str) -> Candidate:
        if version == self.present.versions[self.package]:
            return Candidate(version, self.target, self.present)
        quiet = replace(self.resolver, progress=_Steps(self.resolver.progress))
        error: ProvisionError = SpecError(f"nothing requires {self.package} there")
        for changed in self._changed(version):
            try:
                known = self.present.artifacts
                lock = resolve_lock(changed, self.present.folder, quiet, known)
            except ProvisionError as raised:
                error = raised
                continue
            finally:
                quiet.progress.step("")
            if self.package in lock.versions:
                return Candidate(version, changed, lock)
        return Candidate(version, self.target, None, error)

    def _changed(self, version: str) -> Iterator[Target]:
        """Yield the target with another release, then against what other packages require.

        The second where the spec does not require it itself: torch pins its triton and its runtime,
        so no other release of these could be locked.
        """
        target, package = self.target, self.package
        changed = with_release(target, package, version, self.resolver.folder)
        yield changed
        if package not in map(requirement_name, target.pip.requirements):
            override = Override(
                requirement=f"{package}=={version}",
                reason=f"to compare releases of {package}",
            )
            yield changed.with_pip(overrides=(*changed.pip.overrides, override))


def with_release(target: Target, package: str, version: str, catalog: Path) -> Target:
    """Return a target that requires a release; with torch, its companions move as well."""
    moved = {*COMPANIONS, *TRITONS} if package == "torch" else set[str]()
    pin = f"{package}=={version}"
    requirements = [
        _changed(text, package, version, moved) for text in target.pip.requirements
    ]
    about = {package, *moved}
    constraints = [
        t for t in target.pip.constraints if requirement_name(t) not in about
    ]
    overrides = [
        o for o in target.pip.overrides if requirement_name(o.requirement) not in about
    ]
    changed = target.with_pip(
        requirements=tuple(requirements),
        constraints=(*constraints, pin),
        overrides=tuple(overrides),
    )
    return _with_tritons(changed, catalog) if package == "torch" else changed


def _changed(text: str, package: str, version: str, moved: Iterable[str]) -> str:
    """Return a requirement of a spec with another release, or of what moves with it with any."""
    requirement, name = Requirement(text), requirement_name(text)
    if requirement.url or (name != package and name not in moved):
        return text
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    pin = f"=={version}" if name == package else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}{pin}{marker}"


def _with_tritons(target: Target, catalog: Path) -> Target:
    """Return a target that gets each triton from torch's index: releases of torch name it otherwise."""
    index, allowed = dict(target.pip.index), set[str]()
    for name, names in target.pip.index.items():
        if "torch" in names:
            files = load_snapshot(catalog, name, Index).files
            usable = {wheel.name for wheel in files if not wheel.lacks}
            tritons = [n for n in TRITONS if n in usable and n not in names]
            index[name] = (*names, *tritons)
            allowed.update(tritons)
    forbid = tuple(each for each in target.pip.forbid if each.name not in allowed)
    return target.with_pip(index=index, forbid=forbid)


def releases(
    target: Target, package: str, ends: tuple[str, str], resolver: Resolver
) -> list[str]:
    """Return the releases from a good end to a bad one, the oldest first.

    Without a good end, from the oldest one that fits the spec. UsageError: it takes the package from
    a URL.
    """
    good, bad = ends
    for text in target.pip.requirements:
        if requirement_name(text) == package and Requirement(text).url:
            raise UsageError(
                f"{target.name} takes {package} from a URL, which has one release",
                evidence=text,
                remedy="name another package with --package",
            )
    asked = target
    if package == "torch":
        asked = _with_tritons(target, resolver.folder)
    found = resolver.releases(asked, package, bad, good)[::-1]
    return found if good else _that_fit(target, package, found)


def require_release(option: str, end: str, found: Sequence[str]) -> None:
    """Raise UsageError if the end of a search that was typed is no release of its package."""
    if not any(is_same(end, version) for version in found):
        raise UsageError(
            f"{option} {end}: the target cannot have this release",
            cause=f"it can have {', '.join(found) or 'none'}",
            remedy="name one of these; the cut-off of the spec, its Python and its platform decide "
            "which there are",
        )


def _that_fit(target: Target, package: str, found: Sequence[str]) -> list[str]:
    """Return the releases that a range of the spec allows; all, where the spec has only a pin."""
    for text in target.pip.requirements:
        specifier = Requirement(text).specifier
        ranges = [s for s in specifier if s.operator != "==" or s.version.endswith("*")]
        if requirement_name(text) == package and ranges:
            return [v for v in found if specifier.contains(v, prereleases=True)]
    return list(found)


def is_same(end: str, version: str) -> bool:
    """Whether a version is the one that was typed, with or without its local part."""
    typed, known = version_of(end), Version(version)
    return typed in (known, Version(known.public))


def version_of(text: str, option: str = "") -> Version:
    """Return a version; UsageError if it is none."""
    try:
        return Version(text)
    except InvalidVersion as error:
        raise UsageError(
            f"{option} {text}: this is no version".strip(), remedy="such as 2.9.1"
        ) from error


def local_wheels(
    folders: Iterable[Path], target: Target, present: Lock
) -> tuple[Wheel, ...]:
    """Return the wheels of folders that fit a target; none that has another hash in the lock."""
    locked = {artifact.filename: artifact.sha256 for artifact in present.artifacts}
    paths: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.whl")):
            with suppress(InvalidWheelFilename):
                if best_wheel([path.name], *target.machine):
                    paths.setdefault(path.name, path)
    wheels = in_threads(served_wheel, paths.values())
    return tuple(w for w in wheels if locked.get(w.filename, w.sha256) == w.sha256)
