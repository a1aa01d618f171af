"""Why a package is in the conda layer of a lock: its requirements are in the lock, with versions."""

import contextlib
import re
from collections.abc import Collection, Iterator

import rattler
from packaging.utils import canonicalize_name
from rattler.exceptions import InvalidVersionSpecError

from provision.catalog.snapshot import Channel, load_snapshot
from provision.commands.explain_limits import LockedTarget, packages_of
from provision.commands.explanation import (
    Chain,
    Change,
    Explanation,
    Limit,
    LockedFile,
    NewerRelease,
    Source,
)
from provision.core.project import Project
from provision.lockfile.conda import CondaPackage, conda_packages
from provision.lockfile.requirers import THE_SPEC, Via, chains_of

_NAME = re.compile(r"[\w.-]+")


def explain_conda(
    project: Project, locked: LockedTarget, name: str
) -> list[Explanation]:
    """Explain a package of the conda layer; nothing where that does not have it."""
    packages = conda_packages(locked.lock)
    for package in packages:
        if canonicalize_name(package.name) == name:
            return [_explained(project, locked, package, packages)]
    return []


def _explained(
    project: Project,
    locked: LockedTarget,
    package: CondaPackage,
    packages: Collection[CondaPackage],
) -> Explanation:
    target, name = locked.target.name, package.name
    via = _via(locked, packages)
    limits = list(_limits(locked, name, packages))
    file = LockedFile((target,), package.filename, package.size, package.sha256)
    channel = package.url.split("/")[-3]
    update = Change(
        f"provision update {channel}",
        f"asks the channel for newer packages; then `provision lock {target}`",
    )
    return Explanation(
        (target,),
        name,
        "conda",
        package.version,
        (file,),
        channel,
        required_by=packages_of(via[name]),
        why=tuple(_chains(locked, name, via)),
        limits=tuple(limits),
        newer=tuple(_newer(project, locked, package, limits)),
        changes=(update,),
    )


def _requirement(locked: LockedTarget, name: str) -> str:
    """Return what the spec requires of a conda package; "" for nothing."""
    conda = locked.target.conda
    for text in conda.dependencies if conda else ():
        begin = _NAME.match(text)
        if begin and begin[0].lower() == name:
            return text
    if name == "python":
        # What a layer without one gets: provision.resolver.conda_lock.
        return f"python {locked.target.python}.*"
    return ""


def _via(locked: LockedTarget, packages: Collection[CondaPackage]) -> Via:
    via: dict[str, list[str]] = {package.name: [] for package in packages}
    for package in packages:
        if _requirement(locked, package.name):
            via[package.name].append(THE_SPEC)
        for name in package.dependencies:  # among them virtual ones, which no lock has
            via.setdefault(name, []).append(package.name)
    return via


def _chains(locked: LockedTarget, name: str, via: Via) -> Iterator[Chain]:
    chains = chains_of(name, via)
    if THE_SPEC in via[name]:
        chains.insert(0, [])
    for users in chains:
        root = users[-1] if users else name
        place = _place(locked, root)
        source: Source = "inherited"
        if place.startswith(locked.places.spec):
            source = "spec"
        yield Chain(tuple(users), _requirement(locked, root), place, source)


def _place(locked: LockedTarget, root: str) -> str:
    places = locked.places
    text = _requirement(locked, root)
    listed = places.key("dependencies", text, table="conda")
    return listed or places.key("python", table="") or places.spec


def _limits(
    locked: LockedTarget, name: str, packages: Collection[CondaPackage]
) -> Iterator[Limit]:
    text = _requirement(locked, name)
    if text:
        yield Limit(_place(locked, name), "line", text[len(name) :].strip())
    for package in packages:
        if name in package.dependencies:
            by = f"{package.name} {package.version}"
            yield Limit(by, "package", package.dependencies[name])


def _newer(
    project: Project, locked: LockedTarget, package: CondaPackage, limits: list[Limit]
) -> Iterator[NewerRelease]:
    """Yield the newer releases that the catalog has for the platform, the newest first."""
    conda = locked.target.conda
    subdirs = {locked.target.platform, "noarch"}
    versions = set[str]()
    for channel in conda.channels if conda else ():
        for other in load_snapshot(project.catalog, channel, Channel).packages:
            if other.name == package.name and other.subdir in subdirs:
                versions.add(other.version)
    for version in sorted(versions, key=rattler.Version, reverse=True):
        if rattler.Version(version) <= rattler.Version(package.version):
            return
        held_by = []
        for limit in limits:
            if not _admits(limit, version):
                held_by.append(f"{limit.by} requires {package.name} {limit.versions}")
        yield NewerRelease(version, tuple(held_by))


def _admits(limit: Limit, version: str) -> bool:
    """Whether a limit allows a version; what is no limit of conda's rules nothing out."""
    versions = (limit.versions or "*").partition(" ")[0]  # a build may follow
    with contextlib.suppress(InvalidVersionSpecError):
        return rattler.VersionSpec(versions).matches(rattler.Version(version))
    return True
