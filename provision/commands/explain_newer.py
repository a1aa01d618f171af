"""Releases of a catalog that are newer than what is locked: what rules each out, and what takes one."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.catalog.releases import CatalogRelease, releases_of
from provision.commands.explain_limits import (
    LockedTarget,
    admits,
    exact_version,
    limits_of,
    versions_in,
)
from provision.commands.explanation import Limit, NewerRelease
from provision.lockfile.pip import WHEELHOUSE, Artifact


def catalog_releases(locked: LockedTarget, name: str) -> list[CatalogRelease]:
    """Return what the catalog index of a package has of it, the newest first."""
    index = locked.artifacts[name].index
    return releases_of(name, locked.metadata.wheels(index, name), locked.target)


def newer_releases(
    locked: LockedTarget, artifact: Artifact, limits: Sequence[Limit]
) -> Iterator[NewerRelease]:
    """Yield the releases of the catalog above the locked one, and what holds each back."""
    name = artifact.name
    for release in catalog_releases(locked, name):
        if release.version > Version(artifact.version):
            held_by = tuple(_held_by(locked, name, release, limits))
            yield NewerRelease(str(release.version), held_by)


def _held_by(
    locked: LockedTarget, name: str, release: CatalogRelease, limits: Sequence[Limit]
) -> Iterator[str]:
    if release.lacks:
        yield release.lacks
        return
    for limit in limits:
        if not admits(limit, str(release.version)):
            yield f"{limit.by} requires {name}{limit.versions}"
    for requirement in _unmet(locked, name, release):
        # Others move with it, unless a limit of theirs keeps them where they are.
        for limit in _against(locked, requirement, {name}):
            wanted = f"{requirement.name}{versions_in(str(requirement))}"
            yield f"it requires {wanted}, and {limit.by} {requirement.name}{limit.versions}"
    if release.version.is_prerelease and not any(map(_names_prerelease, limits)):
        yield "it is a pre-release"


def _against(
    locked: LockedTarget, requirement: Requirement, moved: Collection[str]
) -> Iterator[Limit]:
    """Yield what keeps a requirement from being met, but for limits of packages that move, too."""
    for limit in limits_of(locked, canonicalize_name(requirement.name)):
        user = limit.by.partition(" ")[0]
        if user not in moved and _excludes(limit, requirement):
            yield limit


def _excludes(limit: Limit, requirement: Requirement) -> bool:
    """Whether a limit and a requirement cannot both be met, as far as an exact version tells."""
    for part in requirement.specifier:
        if part.operator == "==" and not part.version.endswith(".*"):
            return not admits(limit, part.version)
    pin = exact_version(limit)
    return bool(pin) and not requirement.specifier.contains(pin, prereleases=True)


def _names_prerelease(limit: Limit) -> bool:
    """Whether a limit names a pre-release, by which resolvers take them."""
    versions = limit.versions or ""
    if versions.startswith("@"):
        return False
    return bool(SpecifierSet(versions).prereleases)


def _unmet(
    locked: LockedTarget, name: str, release: CatalogRelease
) -> Iterator[Requirement]:
    """Yield what a release requires of other packages that the lock has in other versions."""
    for text in release.requires or ():
        requirement = Requirement(text)
        other = locked.artifacts.get(canonicalize_name(requirement.name))
        if not other or other.name == name or not locked.applies(text):
            continue
        if not requirement.specifier.contains(other.version, prereleases=True):
            yield requirement


def command_for_newest(locked: LockedTarget, name: str) -> str:
    """Return the command that takes the newest release that lines of the project alone hold back.

    The packages of the catalog that have to move with it are part of it; "" where none can be taken.
    """
    now = Version(locked.artifacts[name].version)
    for release in catalog_releases(locked, name):
        if release.version <= now:
            return ""
        if release.lacks or release.version.is_prerelease:
            continue
        pins = _pins(locked, name, release)
        if pins:
            return _add(locked, pins)
    return ""


def _pins(locked: LockedTarget, name: str, release: CatalogRelease) -> dict[str, str]:
    """Return the releases that go together; none where something else is in the way."""
    moved = {name: release}
    waiting = [name]
    for package in waiting:  # which grows meanwhile
        for other, fits in _moved_with(locked, package, moved):
            if other not in moved:
                fitting = _fitting(locked, other, fits)
                if fitting is None:
                    return {}
                moved[other] = fitting
                waiting.append(other)
            elif not fits(moved[other]):
                return {}
    named = list(filter(locked.lines, moved)) or moved
    return {other: str(moved[other].version) for other in named}


Fits = Callable[[CatalogRelease], bool]


def _moved_with(
    locked: LockedTarget, name: str, moved: Mapping[str, CatalogRelease]
) -> Iterator[tuple[str, Fits]]:
    """Yield what has to move with a package, and which of its releases fit."""
    release = moved[name]
    for limit in limits_of(locked, name):
        if limit.kind != "line" and not admits(limit, str(release.version)):
            yield limit.by.partition(" ")[0], partial(_takes_it, name, release)
    for requirement in _unmet(locked, name, release):
        if any(_against(locked, requirement, moved)):
            yield canonicalize_name(requirement.name), partial(_is_taken, requirement)


def _takes_it(name: str, release: CatalogRelease, other: CatalogRelease) -> bool:
    """Whether another package's release takes this one of a package that it requires."""
    for text in other.requires or ():
        requirement = Requirement(text)
        is_about = canonicalize_name(requirement.name) == name
        if is_about and not _is_taken(requirement, release):
            return False
    return True


def _is_taken(requirement: Requirement, release: CatalogRelease) -> bool:
    return requirement.specifier.contains(release.version, prereleases=True)


def _fitting(locked: LockedTarget, name: str, fits: Fits) -> CatalogRelease | None:
    """Return the newest release of a package that fits; None where no catalog has it."""
    artifact = locked.artifacts.get(name)
    if artifact is None or artifact.index in {"default", WHEELHOUSE}:
        return None
    for release in catalog_releases(locked, name):
        if fits(release) and not release.lacks and not release.version.is_prerelease:
            return release
    return None


def _add(locked: LockedTarget, pins: dict[str, str]) -> str:
    words = ["provision", "add", locked.target.name]
    sources = set[str]()
    for name, version in pins.items():
        words.append(shlex.quote(f"{name}=={version}"))
        sources.update(line.source for line in locked.lines(name))
    # A line of another file holds beside the spec's: it has to be edited where it is.
    if "file" not in sources:
        words.append("--only-here")
    words.append("--no-build")
    return " ".join(words)
