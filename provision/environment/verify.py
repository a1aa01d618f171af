"""Compare an environment with its lock: lock -> wheel -> the wheel's RECORD -> file.

The installer checks the first link at a download only, and links files from a cache.
"""

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.findings import Finding
from provision.core.limits import read_parsed
from provision.core.prefix import misplaced, site_packages
from provision.core.project import RECORD
from provision.environment import conda_meta, files
from provision.environment.findings import finding, of_target
from provision.environment.installed import (
    InstalledDistribution,
    installed_distributions,
    name_of,
)
from provision.lockfile.pip import Lock
from provision.spec.parts import ForbiddenDistribution


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of comparing an environment with its lock."""

    findings: tuple[Finding, ...]  # none if the two are equal
    distributions: int
    files: int  # how many the RECORDs list
    size: int  # of the files on disk, in bytes
    drifted: tuple[str, ...]  # distributions that are missing, replaced or damaged
    # The next two need every file hashed: digest of the installed RECORD of each wheel for which
    # the lock has none, by the SHA-256 of the wheel; and one over the paths and hashes of all
    # files, equal on every machine that built the same lock.
    unvouched: dict[str, str]
    tree: str | None


def verify(
    prefix: Path, lock: Lock, forbid: Iterable[ForbiddenDistribution], *, deep: bool
) -> Verification:
    """Compare an environment with its lock, and hash every file if it is to go deep."""
    # What is forbidden must not be in it, even as a requirement of a locked distribution.
    site = site_packages(prefix)
    if site is None:
        raise ToolError.of("no-environment", prefix=prefix, target=lock.folder.name)
    conda = conda_meta.installed_conda_packages(prefix, site)
    # A conda package of a Python library has a .dist-info as well; conda-meta answers for it.
    of_conda = conda_meta.conda_dist_infos(conda)
    found = installed_distributions(site)
    installed = [dist for dist in found if dist.folder.name not in of_conda]
    every: list[InstalledDistribution | conda_meta.InstalledCondaPackage] = [
        *installed,
        *conda,
    ]
    records = {dist.folder: dist.entries for dist in every}
    # The files of own packages are known, and are not compared.
    every = [dist for dist in every if dist.name not in lock.local]
    compared = [records[dist.folder] for dist in every]
    on_disk = files.list_files(site, with_stdlib=bool(conda))
    build: dict[str, str] = {}
    with contextlib.suppress(
        OSError, ValueError, TypeError
    ):  # an unfinished one has none
        build = dict(read_parsed(prefix / RECORD, json.loads))
    # Of another lock, each difference would show as somebody's change.
    differ = build.get("lock", lock.digest) != lock.digest
    older = [finding("older-lock", f"built {build.get('built')}")] if differ else []
    why = misplaced(prefix, str(build.get("path", "")))
    at = f"it lies at {prefix}"
    moved = [finding("moved-environment", at, prefix=prefix, why=why)] if why else []
    findings = [
        *moved,
        *(
            older
            or (*_conda_findings(conda, lock), *_distribution_findings(installed, lock))
        ),
        *_forbidden_findings(installed, forbid),
        *files.unrecorded_findings(on_disk, records.values()),
    ]
    hashes = files.hash_files(site, compared, on_disk) if deep else {}
    damaged: set[str] = set()
    locked = {
        (artifact.name, artifact.version): artifact for artifact in lock.artifacts
    }
    unvouched: dict[str, str] = {}
    for dist in every:
        record = records[dist.folder]
        faults = list(files.damage_findings(dist, site, record, on_disk, hashes))
        artifact = locked.get((dist.name, dist.version))
        if deep and artifact and isinstance(dist, InstalledDistribution):
            digests = files.record_digests(dist, record, prefix, site)
            if artifact.record is None:
                unvouched[artifact.sha256] = digests[0]
            elif artifact.record not in digests:
                faults.append(
                    finding("foreign-record", str(dist.folder / "RECORD"), dist=dist)
                )
        findings += faults
        damaged |= {dist.name} if faults else set()
    # `verify --repair` removes these from uv's cache before it builds again.
    versions = {dist.name: dist.version for dist in installed}
    replaced = {
        name for name, version in lock.versions.items() if versions.get(name) != version
    }
    return Verification(
        findings=of_target(findings, lock.folder.name),
        distributions=len(every),
        files=sum(map(len, compared)),
        size=sum(on_disk.values()),
        drifted=tuple(sorted(damaged | replaced)),
        unvouched=unvouched,
        tree=files.tree_digest(prefix, site, hashes, conda) if deep else None,
    )


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
            yield finding(
                "missing-package", f"the lock has {name} {version}", name=name
            )
        elif found.version != version:
            cause, evidence = _replaced_by(found, version, unlocked)
            facts = {
                "name": name,
                "locked": version,
                "found": found.version,
                "cause": cause,
            }
            yield finding("version-drift", evidence, **facts)
    if unlocked:
        yield _added(unlocked)
    # installed_distributions() sorts by name, so duplicates are neighbours.
    for first, second in itertools.pairwise(installed):
        if first.name == second.name:
            facts = {
                "name": first.name,
                "first": first.version,
                "second": second.version,
            }
            yield finding("installed-twice", str(second.folder), **facts)


def _added(unlocked: list[InstalledDistribution]) -> Finding:
    """Return one finding for all: usually one command installed them."""
    named = [f"{dist.name or dist.folder.name} {dist.version}" for dist in unlocked]
    return finding(
        "unlocked-package",
        ", ".join(named),
        str(unlocked[0].folder),
        packages=named[0] + (f" and {len(named) - 1} more are" if named[1:] else " is"),
        command=_installed_by(unlocked[0].installer, unlocked),
        asked=_asked(unlocked),
    )


def _asked(unlocked: list[InstalledDistribution]) -> str:
    """Return those that somebody named: none of the others requires them, but for its extras."""
    # REQUESTED (PEP 376) would say it, but uv writes it for every package of a set.
    required = (requirement for dist in unlocked for requirement in dist.requires)
    brought = {name_of(r) for r in required if "extra" not in r.partition(";")[2]}
    return " ".join(dist.name for dist in unlocked if dist.name not in brought)


def _installed_by(tool: str, unlocked: list[InstalledDistribution]) -> str:
    program = {"uv": "uv pip", "pip": "pip"}.get(tool)
    asked = _asked(unlocked)
    return (
        f"`{program} install {asked}`"
        if program
        else f"{tool}, which installed {asked},"
    )


def _allows(requirement: str, version: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - rare

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
    installed: list[conda_meta.InstalledCondaPackage], lock: Lock
) -> Iterator[Finding]:
    """Yield what differs between the installed conda packages and the conda layer of a lock."""
    # Archives are compared by hash: two builds of one version differ, and a channel may rebuild.
    if lock.conda is None and not installed:
        return
    from provision.lockfile.conda import conda_packages  # noqa: PLC0415 - slow, and most locks have no conda layer

    by_name = {package.name: package for package in installed}
    locked = {package.name: package for package in conda_packages(lock)}
    for name in sorted(locked.keys() | by_name.keys()):
        found, package = by_name.get(name), locked.get(name)
        if found and package and found.sha256 == package.sha256:
            continue
        has = f"{found.version}, sha256 {found.sha256}" if found else "not installed"
        wants = (
            f"{package.version}, sha256 {package.sha256}" if package else "not locked"
        )
        yield finding("conda-drift", f"installed: {has}; locked: {wants}", name=name)


def _forbidden_findings(
    installed: list[InstalledDistribution], forbid: Iterable[ForbiddenDistribution]
) -> Iterator[Finding]:
    """Yield the installed distributions that the spec forbids, whether or not they are locked."""
    for entry, dist in itertools.product(forbid, installed):
        if entry.name == dist.name:
            facts = {"name": dist.name, "version": dist.version, "reason": entry.reason}
            yield finding("forbidden-package", str(dist.folder), **facts)
