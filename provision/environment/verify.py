"""Compare an environment with its lock: lock -> wheel -> the wheel's RECORD -> file.

The installer checks the first link at a download only, and links files from a cache.
"""

import contextlib
import itertools
import json
from collections.abc import Collection, Iterable, Iterator

from packaging.requirements import InvalidRequirement, Requirement

from provision.core.findings import Finding
from provision.core.limits import read_parsed
from provision.core.prefix import misplaced
from provision.core.project import RECORD
from provision.environment import files
from provision.environment.conda_meta import InstalledCondaPackage
from provision.environment.contents import Contents, Package
from provision.environment.findings import finding, of_target
from provision.environment.installed import InstalledDistribution, name_of
from provision.environment.verification import Verification
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Lock
from provision.spec.model import ForbiddenDistribution


def verify(
    contents: Contents,
    lock: Lock,
    forbid: Iterable[ForbiddenDistribution],
    *,
    deep: bool,
) -> Verification:
    """Compare an environment with its lock, and hash every file if it is to go deep."""
    packages = contents.without(lock.local)
    hashes = files.hash_files(contents, packages) if deep else {}
    damage, damaged = _damage(contents, packages, hashes)
    foreign: dict[str, Finding] = {}
    unlocked_records: dict[str, str] = {}
    if deep:
        foreign, unlocked_records = _compare_records(contents, lock)
    findings = [
        *_place_findings(contents, lock),
        # What is forbidden must not be in it, even as a requirement of a locked distribution.
        *_forbidden_findings(contents.distributions, forbid),
        *files.unrecorded_findings(contents),
        *damage,
        *foreign.values(),
    ]
    tree = files.tree_digest(contents, hashes) if deep else None
    drifted = damaged | foreign.keys() | _replaced(contents, lock)
    return Verification(
        findings=of_target(findings, lock.folder.name),
        distributions=len(packages),
        files=sum(len(package.entries) for package in packages),
        size=sum(contents.sizes.values()),
        drifted=tuple(sorted(drifted)),
        unlocked_records=unlocked_records,
        tree=tree,
    )


def tree_of(contents: Contents, local: Collection[str]) -> str:
    """Return the digest of all files but those of own packages, as its build recorded it."""
    hashes = files.hash_files(contents, contents.without(local))
    return files.tree_digest(contents, hashes)


def _place_findings(contents: Contents, lock: Lock) -> Iterator[Finding]:
    """Yield whether it was moved, and what is installed otherwise than locked."""
    prefix = contents.prefix
    build = {}
    # An unfinished environment has no record.
    with contextlib.suppress(OSError, ValueError, TypeError):
        build = dict(read_parsed(prefix / RECORD, json.loads))
    if why := misplaced(prefix, str(build.get("path", ""))):
        place = f"it lies at {prefix}"
        yield finding("moved-environment", place, prefix=prefix, why=why)
    # Of another lock, each difference would show as somebody's change.
    if build.get("lock", lock.digest) != lock.digest:
        yield finding("older-lock", f"built {build.get('built')}")
        return
    yield from _conda_findings(contents.conda, lock)
    yield from _distribution_findings(contents.distributions, lock)


def _damage(
    contents: Contents, packages: Iterable[Package], hashes: dict[str, str]
) -> tuple[list[Finding], set[str]]:
    """Return what is wrong with the files of packages, and the names of those that have errors."""
    findings = []
    damaged = set()
    for package in packages:
        for fault in files.damage_findings(package, contents, hashes):
            findings.append(fault)
            damaged.add(package.name)
    return findings, damaged


def _compare_records(
    contents: Contents, lock: Lock
) -> tuple[dict[str, Finding], dict[str, str]]:
    """Compare each installed RECORD with that of the locked wheel.

    Returns:
        A finding by the name of each distribution whose RECORD is another, and the digests of
        those for which the lock has none, by the SHA-256 of the wheel.
    """
    locked = {(wheel.name, wheel.version): wheel for wheel in lock.artifacts}
    foreign = {}
    unlocked_records = {}
    for dist in contents.distributions:
        artifact = locked.get((dist.name, dist.version))
        if artifact is None:
            continue
        digests = files.record_digests(dist, contents.prefix, contents.site)
        if artifact.record is None:
            unlocked_records[artifact.sha256] = next(digests)
        elif artifact.record not in digests:
            evidence = str(dist.folder / "RECORD")
            foreign[dist.name] = finding("foreign-record", evidence, dist=dist)
    return foreign, unlocked_records


def _replaced(contents: Contents, lock: Lock) -> set[str]:
    """Return the locked distributions that are missing, or installed in another version."""
    # `verify --repair` removes these from uv's cache before it builds again.
    versions = {dist.name: dist.version for dist in contents.distributions}
    replaced = set()
    for name, version in lock.versions.items():
        if versions.get(name) != version:
            replaced.add(name)
    return replaced


def _distribution_findings(
    installed: list[InstalledDistribution], lock: Lock
) -> Iterator[Finding]:
    """Yield what differs between the installed distributions and the pip layer of a lock."""
    by_name = {dist.name: dist for dist in installed}
    # Own packages are the user's to change, and no drift.
    foreign = by_name.keys() - lock.versions.keys() - lock.local
    unlocked = [by_name[name] for name in sorted(foreign)]
    for name, version in lock.versions.items():
        found = by_name.get(name)
        if found is None:
            evidence = f"the lock has {name} {version}"
            yield finding("missing-package", evidence, name=name)
        elif found.version != version:
            cause, evidence = _replaced_by(found, version, unlocked)
            yield finding(
                "version-drift",
                evidence,
                name=name,
                locked=version,
                found=found.version,
                cause=cause,
            )
    if unlocked:
        yield _added(unlocked)
    # installed_distributions() sorts by name, so duplicates are neighbours.
    for first, second in itertools.pairwise(installed):
        if first.name == second.name:
            yield finding(
                "installed-twice",
                str(second.folder),
                name=first.name,
                first=first.version,
                second=second.version,
            )


def _added(unlocked: list[InstalledDistribution]) -> Finding:
    """Return one finding for all: usually one command installed them."""
    named = [f"{dist.name or dist.folder.name} {dist.version}" for dist in unlocked]
    packages = f"{named[0]} is"
    if len(named) > 1:
        packages = f"{named[0]} and {len(named) - 1} more are"
    return finding(
        "unlocked-package",
        ", ".join(named),
        str(unlocked[0].folder),
        packages=packages,
        command=_installed_by(unlocked[0].installer, unlocked),
        asked=_asked(unlocked),
    )


def _asked(unlocked: list[InstalledDistribution]) -> str:
    """Return those that somebody named: none of the others requires them, but for its extras."""
    # REQUESTED (PEP 376) would say it, but uv writes it for every package of a set.
    required = set()
    for dist in unlocked:
        for requirement in dist.requires:
            if "extra" not in requirement.partition(";")[2]:
                required.add(name_of(requirement))
    return " ".join(dist.name for dist in unlocked if dist.name not in required)


def _installed_by(tool: str, unlocked: list[InstalledDistribution]) -> str:
    asked = _asked(unlocked)
    if program := {"uv": "uv pip", "pip": "pip"}.get(tool):
        return f"`{program} install {asked}`"
    return f"{tool}, which installed {asked},"


def _allows(requirement: str, version: str) -> bool:
    with contextlib.suppress(InvalidRequirement):
        return Requirement(requirement).specifier.contains(version, prereleases=True)
    return True


def _replaced_by(
    found: InstalledDistribution, locked: str, unlocked: list[InstalledDistribution]
) -> tuple[str, str]:
    """Return the likely cause of a replaced version, and the evidence for it."""
    # Usually somebody installed another package, and its Requires-Dist excludes the locked version.
    for dist in unlocked:
        for requirement in dist.requires:
            if name_of(requirement) == found.name and not _allows(requirement, locked):
                cause = f"{_installed_by(found.installer, unlocked)} replaced it"
                return cause, f"{dist.name} {dist.version} requires {requirement}"
    return f"{found.installer} replaced it after the build", str(found.folder)


def _conda_findings(
    installed: list[InstalledCondaPackage], lock: Lock
) -> Iterator[Finding]:
    """Yield what differs between the installed conda packages and the conda layer of a lock."""
    # Archives are compared by hash: two builds of one version differ, and a channel may rebuild.
    by_name = {package.name: package for package in installed}
    locked = {package.name: package for package in conda_packages(lock)}
    for name in sorted(locked.keys() | by_name.keys()):
        found, package = by_name.get(name), locked.get(name)
        if found and package and found.sha256 == package.sha256:
            continue
        now, wanted = "not installed", "not locked"
        if found:
            now = f"{found.version}, sha256 {found.sha256}"
        if package:
            wanted = f"{package.version}, sha256 {package.sha256}"
        yield finding("conda-drift", f"installed: {now}; locked: {wanted}", name=name)


def _forbidden_findings(
    installed: list[InstalledDistribution], forbid: Iterable[ForbiddenDistribution]
) -> Iterator[Finding]:
    """Yield the installed distributions that the spec forbids, whether or not they are locked."""
    for entry, dist in itertools.product(forbid, installed):
        if entry.name == dist.name:
            yield finding(
                "forbidden-package",
                str(dist.folder),
                name=dist.name,
                version=dist.version,
                reason=entry.reason,
            )
