"""The locks that a search compares: each has another release of one package, and is not written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename
from packaging.version import InvalidVersion, Version

from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.commands.lock import resolve_lock
from provision.core.errors import ProvisionError, SpecError, ToolError, UsageError
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
        candidates = in_threads(self._candidate, versions, _WORKERS)
        errors: dict[str, ProvisionError] = {}
        for candidate in candidates:
            if candidate.error:
                errors[candidate.version] = candidate.error
            elif candidate.lock is not self.present:
                return candidates
        if errors:
            raise self._none(errors)
        return candidates

    def _none(self, errors: Mapping[str, ProvisionError]) -> ProvisionError:
        """Return the error where no other release can be locked: of a tool, if one failed."""
        lines = []
        for version, error in errors.items():
            if isinstance(error, ToolError):
                return error
            lines.append(f"{version}: {in_one_line(error)}")
        here = self.present.versions[self.package]
        return SpecError(
            f"{self.target.name}: no release of {self.package} but {here} can be locked",
            evidence="\n".join(lines),
            cause=error.cause,
            remedy=error.remedy,
        )

    def _candidate(self, version: str) -> Candidate:
        if version == self.present.versions[self.package]:
            return Candidate(version, self.target, self.present)
        quiet = replace(self.resolver, progress=_Steps(self.resolver.progress))
        error: ProvisionError = SpecError(f"nothing requires {self.package} there")
        for changed in self._changed(version):
            try:
                present = self.present
                lock = resolve_lock(changed, present.folder, quiet, present.artifacts)
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
    pin = f"=={version}"
    pins = {package: pin}  # those that move with it may be of any release
    if package == "torch":
        pins = dict.fromkeys((*COMPANIONS, *TRITONS), "") | pins
    requirements = []
    for text in target.pip.requirements:
        pin_of_text = pins.get(requirement_name(text))
        if pin_of_text is None or Requirement(text).url:
            requirements.append(text)
        else:
            requirements.append(with_specifier(text, pin_of_text))
    constraints = []
    for text in target.pip.constraints:
        if requirement_name(text) not in pins:
            constraints.append(text)
    overrides = []
    for override in target.pip.overrides:
        if requirement_name(override.requirement) not in pins:
            overrides.append(override)
    changed = target.with_pip(
        requirements=tuple(requirements),
        constraints=(*constraints, package + pin),
        overrides=tuple(overrides),
    )
    return _with_tritons(changed, catalog) if package == "torch" else changed


def with_specifier(text: str, specifier: str) -> str:
    """Return a requirement with other versions, such as ``==2.9.1``; its extras and marker stay."""
    requirement = Requirement(text)
    changed = requirement.name
    if requirement.extras:
        changed += f"[{','.join(sorted(requirement.extras))}]"
    changed += specifier
    if requirement.marker:
        changed += f" ; {requirement.marker}"
    return changed


def _with_tritons(target: Target, catalog: Path) -> Target:
    """Return a target that gets each triton from torch's index: releases of torch name it otherwise."""
    index = dict(target.pip.index)
    allowed = set[str]()
    for name, names in target.pip.index.items():
        if "torch" in names:
            files = load_snapshot(catalog, name, Index).files
            usable = {wheel.name for wheel in files if not wheel.lacks}
            tritons = usable.intersection(TRITONS).difference(names)
            index[name] = (*names, *sorted(tritons))
            allowed |= tritons
    forbid = [entry for entry in target.pip.forbid if entry.name not in allowed]
    return target.with_pip(index=index, forbid=tuple(forbid))


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
    searched = target
    if package == "torch":
        searched = _with_tritons(target, resolver.folder)
    offered = resolver.releases(searched, package, bad, good)[::-1]
    return offered if good else _that_fit(target, package, offered)


def require_release(option: str, end: str, offered: Sequence[str]) -> None:
    """Raise UsageError if the end of a search that was typed is no release of its package."""
    if not has_release(end, offered):
        raise UsageError(
            f"{option} {end}: the target cannot have this release",
            cause=f"it can have {', '.join(offered) or 'none'}",
            remedy="name one of these; the cut-off of the spec, its Python and its platform decide "
            "which there are",
        )


def _that_fit(target: Target, package: str, offered: list[str]) -> list[str]:
    """Return the releases that a range of the spec allows; all, where the spec has only a pin."""
    for text in target.pip.requirements:
        if requirement_name(text) != package:
            continue
        specifier = Requirement(text).specifier
        for part in specifier:
            if part.operator != "==" or part.version.endswith("*"):
                return list(specifier.filter(offered, prereleases=True))
    return offered


def has_release(typed: str, offered: Sequence[str]) -> bool:
    """Whether a version is one of some releases, with or without its local part."""
    wanted = Version(typed)
    for text in offered:
        version = Version(text)
        if wanted in (version, Version(version.public)):
            return True
    return False


def require_version(option: str, text: str) -> None:
    """Raise UsageError if the value of an option is no version."""
    try:
        Version(text)
    except InvalidVersion as error:
        raise UsageError(
            f"{option} {text}: this is no version", remedy="such as 2.9.1"
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
    fitting = []
    for wheel in in_threads(served_wheel, paths.values()):
        if locked.get(wheel.filename, wheel.sha256) == wheel.sha256:
            fitting.append(wheel)
    return tuple(fitting)
