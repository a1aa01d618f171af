"""Compare distributions with a lock by version, and conda packages by archive; hashes no file."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING

from provision.core.limits import read_parsed
from provision.core.prefix import misplaced
from provision.core.project import RECORD
from provision.environment.findings import finding
from provision.environment.installed import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from provision.core.findings import Finding
    from provision.environment.conda_meta import InstalledCondaPackage
    from provision.environment.installed import InstalledDistribution
    from provision.lockfile.pip import Lock
    from provision.spec.parts import ForbiddenDistribution


def distribution_findings(installed: list[InstalledDistribution], lock: Lock) -> Iterator[Finding]:
    """Yield what differs between the installed distributions and the pip layer of a lock."""
    target, by_name = lock.folder.name, {dist.name: dist for dist in installed}
    # Own packages are the user's to change, and no drift.
    foreign = by_name.keys() - lock.versions.keys() - lock.local
    unlocked = [by_name[name] for name in sorted(foreign)]
    for name, version in lock.versions.items():
        found = by_name.get(name)
        if found is None:
            has = f"the lock has {name} {version}"
            yield finding("missing-package", has, name=name, target=target)
        elif found.version != version:
            cause, evidence = _replaced_by(found, version, unlocked)
            facts = {"name": name, "locked": version, "found": found.version, "cause": cause}
            yield finding("version-drift", evidence, **facts, target=target)
    if unlocked:
        yield _added(target, unlocked)
    # installed_distributions() sorts by name, so duplicates are neighbours.
    for first, second in itertools.pairwise(installed):
        if first.name == second.name:
            facts = {"name": first.name, "first": first.version, "second": second.version}
            yield finding("installed-twice", str(second.folder), **facts, target=target)


def _added(target: str, unlocked: list[InstalledDistribution]) -> Finding:
    """Return one finding for all: usually one command installed them."""
    named = [f"{dist.name or dist.folder.name} {dist.version}" for dist in unlocked]
    return finding(
        "unlocked-package", ", ".join(named), str(unlocked[0].folder),
        packages=named[0] + (f" and {len(named) - 1} more are" if named[1:] else " is"),
        command=_installed_by(unlocked[0].installer, unlocked),
        target=target, asked=_asked(unlocked),
    )  # fmt: skip


def _asked(unlocked: list[InstalledDistribution]) -> str:
    """Return those that somebody named: none of the others requires them, but for its extras."""
    # REQUESTED (PEP 376) would say it, but uv writes it for every package of a set.
    required = (requirement for dist in unlocked for requirement in dist.requires)
    brought = {name_of(r) for r in required if "extra" not in r.partition(";")[2]}
    return " ".join(dist.name for dist in unlocked if dist.name not in brought)


def _installed_by(tool: str, unlocked: list[InstalledDistribution]) -> str:
    program = {"uv": "uv pip", "pip": "pip"}.get(tool)
    asked = _asked(unlocked)
    return f"`{program} install {asked}`" if program else f"{tool}, which installed {asked},"


def _allows(requirement: str, version: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - rare

    try:
        return Requirement(requirement).specifier.contains(version, prereleases=True)
    except InvalidRequirement:
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


def moved_findings(prefix: Path, lock: Lock) -> Iterator[Finding]:
    """Yield whether an environment lies elsewhere than it was built; an unfinished one does not."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        record = read_parsed(prefix / RECORD, json.loads)
        if why := misplaced(prefix, str(record.get("path", ""))):
            facts = {"prefix": prefix, "why": why, "target": lock.folder.name}
            yield finding("moved-environment", f"it lies at {prefix}", **facts)


def conda_findings(installed: list[InstalledCondaPackage], lock: Lock) -> Iterator[Finding]:
    """Yield what differs between the installed conda packages and the conda layer of a lock.

    Archives are compared by hash: two builds of one version differ, and a channel may rebuild.
    """
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
        wants = f"{package.version}, sha256 {package.sha256}" if package else "not locked"
        evidence = f"installed: {has}; locked: {wants}"
        yield finding("conda-drift", evidence, name=name, target=lock.folder.name)


def forbidden_findings(
    installed: list[InstalledDistribution], forbid: Iterable[ForbiddenDistribution]
) -> Iterator[Finding]:
    """Yield the installed distributions that the spec forbids, whether or not they are locked."""
    for entry, dist in itertools.product(forbid, installed):
        if entry.name == dist.name:
            facts = {"name": dist.name, "version": dist.version, "reason": entry.reason}
            yield finding("forbidden-package", str(dist.folder), **facts)
