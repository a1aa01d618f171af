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
    limits,
    versions_in,
)
from provision.commands.explanation import Limit, NewerRelease
from provision.lockfile.pip import WHEELHOUSE, Artifact


def catalog_releases(locked: LockedTarget, name: str) -> list[CatalogRelease]:
    """Return what the catalog index of a package has of it, the newest first."""
    index = locked.artifacts[name].index
    return releases_of(name, locked.metadata.wheels(index, name), locked.target)


def newer_releases(
    locked: LockedTarget, artifact: Artifact, found: Sequence[Limit]
) -> Iterator[NewerRelease]:
    """Yield the releases of the catalog above the locked one, and what holds each back."""
    name = artifact.name
    for release in catalog_releases(locked, name):
        if release.version > Version(artifact.version):
            held = (*_held_by(locked, name, release, found),)
            yield NewerRelease(str(release.version), held)


def _held_by(
    locked: LockedTarget, name: str, release: CatalogRelease, found: Sequence[Limit]
) -> Iterator[str]:
    if release.lacks:
        yield release.lacks
        return
    for limit in found:
        if not admits(limit, str(release.version)):
            yield f"{limit.by} requires {name}{limit.versions}"
    for asked in _unmet(locked, name, release):
        # Others move with it, unless a limit of theirs keeps them where they are.
        for limit in _against(locked, asked, {name}):
            wanted = f"{asked.name}{versions_in(str(asked))}"
            yield f"it requires {wanted}, and {limit.by} {asked.name}{limit.versions}"
    if release.version.is_prerelease and not _names_prerelease(found):
        yield "it is a pre-release"


def _against(
    locked: LockedTarget, asked: Requirement, moved: Collection[str]
) -> Iterator[Limit]:
    """Yield what keeps a requirement from being met, but for limits of packages that move, too."""
    for limit in limits(locked, str(canonicalize_name(asked.name))):
        if limit.by.partition(" ")[0] not in moved and _excludes(limit, asked):
            yield limit


def _excludes(limit: Limit, asked: Requirement) -> bool:
    """Whether a limit and a requirement cannot both be met, as far as an exact version tells."""
    pins = [part.version for part in asked.specifier if part.operator == "=="]
    if exact := [pin for pin in pins if not pin.endswith(".*")]:
        return not admits(limit, exact[0])
    if pin := exact_version(limit):
        return not asked.specifier.contains(pin, prereleases=True)
    return False


def _names_prerelease(found: Sequence[Limit]) -> bool:
    """Whether a limit names a pre-release, by which resolvers take them."""
    texts = [limit.versions or "" for limit in found]
    return any(SpecifierSet(text).prereleases for text in texts if text[:1] != "@")


def _unmet(
    locked: LockedTarget, name: str, release: CatalogRelease
) -> Iterator[Requirement]:
    """Yield what a release requires of other packages that the lock has in other versions."""
    for text in release.requires or ():
        asked = Requirement(text)
        other = locked.artifacts.get(canonicalize_name(asked.name))
        if not other or other.name == name or not locked.applies(text):
            continue
        if not asked.specifier.contains(other.version, prereleases=True):
            yield asked


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
        if pins := _pins(locked, name, release):
            return _add(locked, pins)
    return ""


def _pins(locked: LockedTarget, name: str, release: CatalogRelease) -> dict[str, str]:
    """Return the releases that go together; none where something else is in the way."""
    pins, waiting = {name: release}, [name]
    for moved in waiting:  # which grows meanwhile
        for other, fits in _moved_with(locked, moved, pins):
            if other in pins and fits(pins[other]):
                continue
            fitting = _fitting(locked, other, fits)
            if other in pins or fitting is None:
                return {}
            pins[other] = fitting
            waiting.append(other)
    lines = {other: each for other, each in pins.items() if locked.lines(other)}
    return {other: str(each.version) for other, each in (lines or pins).items()}


Fits = Callable[[CatalogRelease], bool]


def _moved_with(
    locked: LockedTarget, name: str, pins: Mapping[str, CatalogRelease]
) -> Iterator[tuple[str, Fits]]:
    """Yield what has to move with a package, and which of its releases fit."""
    release = pins[name]
    for limit in limits(locked, name):
        if not admits(limit, str(release.version)) and limit.kind != "line":
            yield limit.by.partition(" ")[0], partial(_takes_it, name, release)
    for asked in _unmet(locked, name, release):
        if any(_against(locked, asked, pins)):
            yield str(canonicalize_name(asked.name)), partial(_is_taken, asked)


def _takes_it(name: str, release: CatalogRelease, other: CatalogRelease) -> bool:
    """Whether another package's release takes this one of a package that it requires."""
    asked = [Requirement(text) for text in other.requires or ()]
    about = [each for each in asked if canonicalize_name(each.name) == name]
    return all(_is_taken(each, release) for each in about)


def _is_taken(asked: Requirement, release: CatalogRelease) -> bool:
    return asked.specifier.contains(release.version, prereleases=True)


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
    words = [shlex.quote(f"{name}=={version}") for name, version in pins.items()]
    sources = {line.source for name in pins for line in locked.lines(name)}
    # A line of another file holds beside the spec's: it has to be edited where it is.
    only = [] if "file" in sources else ["--only-here"]
    return " ".join(["provision add", locked.target.name, *words, *only, "--no-build"])
