"""Why a package is in the conda layer of a lock: its requirements are in the lock, with versions."""

import contextlib
import re
from collections.abc import Collection, Iterator

import rattler
from packaging.utils import canonicalize_name
from rattler.exceptions import InvalidVersionSpecError

from provision.catalog.snapshot import Channel, load_snapshot
from provision.commands.explain_limits import LockedTarget
from provision.commands.explanation import (
    Chain,
    Change,
    Explanation,
    Limit,
    LockedFile,
    NewerRelease,
)
from provision.core.project import Project
from provision.lockfile.conda import CondaPackage, conda_packages
from provision.lockfile.requirers import THE_SPEC, Via, chains_of

_NAME = re.compile(r"[\w.-]+")


def explain_conda(
    project: Project, locked: LockedTarget, name: str
) -> list[Explanation]:
    """Explain a package of the conda layer; nothing where that does not have it."""
    packages = {package.name: package for package in conda_packages(locked.lock)}
    spelt = [each for each in packages if canonicalize_name(each) == name]
    if not spelt:
        return []
    package = packages[spelt[0]]
    via = _via(locked, packages.values())
    file = LockedFile(
        (locked.target.name,), package.filename, package.size, package.sha256
    )
    channel = package.url.split("/")[-3]
    target, found = locked.target.name, [*_limits(locked, package.name, packages)]
    update = Change(
        f"provision update {channel}",
        f"asks the channel for newer packages; then `provision lock {target}`",
    )
    explained = Explanation(
        (target,),
        package.name,
        "conda",
        package.version,
        (file,),
        channel,
        required_by=tuple(user for user in via[package.name] if user != THE_SPEC),
        why=tuple(_chains(locked, package.name, via)),
        limits=tuple(found),
        newer=tuple(_newer(project, locked, package, found)),
        changes=(update,),
    )
    return [explained]


def _asked(locked: LockedTarget, name: str) -> str:
    """Return what the spec requires of a conda package; "" for nothing."""
    conda, target = locked.target.conda, locked.target
    listed = conda.dependencies if conda else ()
    for text in listed:
        if (found := _NAME.match(text)) and found[0].lower() == name:
            return text
    # What a layer without a Python gets: provision.resolver.conda_lock.
    return f"python {target.python}.*" if name == "python" else ""


def _via(locked: LockedTarget, packages: Collection[CondaPackage]) -> Via:
    via: dict[str, list[str]] = {package.name: [] for package in packages}
    for package in packages:
        if _asked(locked, package.name):
            via[package.name].append(THE_SPEC)
        for name in package.dependencies:  # among them virtual ones, which no lock has
            via.setdefault(name, []).append(package.name)
    return via


def _chains(locked: LockedTarget, name: str, via: Via) -> Iterator[Chain]:
    direct: list[list[str]] = [[]] if THE_SPEC in via[name] else []
    for users in [*direct, *chains_of(name, via)]:
        root = [name, *users][-1]
        text, place = _asked(locked, root), _place(locked, root)
        inherited = not place.startswith(locked.places.spec)
        yield Chain(tuple(users), text, place, "inherited" if inherited else "spec")


def _place(locked: LockedTarget, root: str) -> str:
    places, text = locked.places, _asked(locked, root)
    listed = places.key("dependencies", text, table="conda")
    return listed or places.key("python", table="") or places.spec


def _limits(
    locked: LockedTarget, name: str, packages: dict[str, CondaPackage]
) -> Iterator[Limit]:
    if text := _asked(locked, name):
        yield Limit(_place(locked, name), "line", text[len(name) :].strip())
    for package in packages.values():
        if name in package.dependencies:
            by = f"{package.name} {package.version}"
            yield Limit(by, "package", package.dependencies[name])


def _newer(
    project: Project, locked: LockedTarget, package: CondaPackage, found: list[Limit]
) -> Iterator[NewerRelease]:
    """Yield the newer releases that the catalog has for the platform, the newest first."""
    versions = set[str]()
    for name in locked.target.conda.channels if locked.target.conda else ():
        for each in load_snapshot(project.catalog, name, Channel).packages:
            here = each.subdir in {locked.target.platform, "noarch"}
            if here and each.name == package.name:
                versions.add(each.version)
    for version in sorted(versions, key=rattler.Version, reverse=True):
        if rattler.Version(version) > rattler.Version(package.version):
            held = (limit for limit in found if not _admits(limit, version))
            by = tuple(
                f"{limit.by} requires {package.name} {limit.versions}" for limit in held
            )
            yield NewerRelease(version, by)


def _admits(limit: Limit, version: str) -> bool:
    """Whether a limit allows a version; what is no limit of conda's rules nothing out."""
    versions = (limit.versions or "*").partition(" ")[0]  # a build may follow
    with contextlib.suppress(InvalidVersionSpecError):
        return rattler.VersionSpec(versions).matches(rattler.Version(version))
    return True
