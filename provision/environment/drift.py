"""Compare distributions with a lock by version, and conda packages by archive; hashes no file."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING

from provision.core.findings import Finding, Level
from provision.core.limits import read_parsed
from provision.core.prefix import misplaced
from provision.core.project import RECORD
from provision.environment.installed import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from provision.environment.conda_meta import InstalledCondaPackage
    from provision.environment.installed import InstalledDistribution
    from provision.lockfile.pip import Lock
    from provision.spec.parts import ForbiddenDistribution


def distribution_findings(installed: list[InstalledDistribution], lock: Lock) -> Iterator[Finding]:
    """Yield what differs between the installed distributions and the pip layer of a lock."""
    by_name = {dist.name: dist for dist in installed}
    # Own packages are the user's to change, and no drift.
    foreign = by_name.keys() - lock.versions.keys() - lock.local
    unlocked = [by_name[name] for name in sorted(foreign)]
    for name, version in lock.versions.items():
        found = by_name.get(name)
        if found is None:
            why = "it was uninstalled after the build", f"the lock has {name} {version}"
            yield _drift(lock, "missing-package", f"{name} is not installed", *why)
        elif found.version != version:
            symptom = f"{name} {version} was replaced by {found.version}"
            yield _drift(lock, "version-drift", symptom, *_replaced_by(found, version, unlocked))
    if unlocked:
        yield _added(lock, unlocked)
    # installed_distributions() sorts by name, so duplicates are neighbours.
    for first, second in itertools.pairwise(installed):
        if first.name == second.name:
            symptom = f"{first.name} is installed twice: {first.version} and {second.version}"
            cause = "a second installation did not remove the first"
            yield _drift(lock, "half-installed-package", symptom, cause, str(second.folder))


def _added(lock: Lock, unlocked: list[InstalledDistribution]) -> Finding:
    """Return one finding for all: usually one command installed them."""
    named = [f"{dist.name or dist.folder.name} {dist.version}" for dist in unlocked]
    target, asked = lock.folder.name, _asked(unlocked)
    return Finding(
        "unlocked-package",
        Level.ERROR,
        named[0] + (f" and {len(named) - 1} more are" if named[1:] else " is") + " not locked",
        f"{_installed_by(unlocked[0].installer, unlocked)} changed the environment after the build",
        f"`provision add {target} {asked}` locks what you need; "
        f"`provision verify {target} --repair` takes out the rest",
        (", ".join(named), str(unlocked[0].folder)),
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
            symptom = f"{prefix} {why}"
            cause = "the project was moved, copied or restored from a backup"
            yield _drift(lock, "moved-environment", symptom, cause, f"it lies at {prefix}")


def conda_findings(installed: list[InstalledCondaPackage], lock: Lock) -> Iterator[Finding]:
    """Yield what differs between the installed conda packages and the conda layer of a lock.

    Archives are compared by hash: two builds of one version differ, and a channel may rebuild.
    """
    if lock.conda is None and not installed:
        return
    from provision.lockfile.conda import conda_packages  # noqa: PLC0415 - slow, and most locks have no conda layer

    by_name = {package.name: package for package in installed}
    locked = {package.name: package for package in conda_packages(lock)}
    cause = "conda, mamba or another tool changed the conda layer after the build"
    for name in sorted(locked.keys() | by_name.keys()):
        found, package = by_name.get(name), locked.get(name)
        if found and package and found.sha256 == package.sha256:
            continue
        has = f"{found.version}, sha256 {found.sha256}" if found else "not installed"
        wants = f"{package.version}, sha256 {package.sha256}" if package else "not locked"
        symptom = f"the conda package {name} is not as locked"
        yield _drift(lock, "conda-drift", symptom, cause, f"installed: {has}; locked: {wants}")


def forbidden_findings(
    installed: list[InstalledDistribution], forbid: Iterable[ForbiddenDistribution]
) -> Iterator[Finding]:
    """Yield the installed distributions that the spec forbids, whether or not they are locked."""
    for entry, dist in itertools.product(forbid, installed):
        if entry.name == dist.name:
            yield Finding(
                "forbidden-package",
                Level.ERROR,
                f"{dist.name} {dist.version} must not be in this environment",
                entry.reason,
                f"uninstall it, or build the target that is made for {dist.name}",
                (str(dist.folder),),
            )


def _drift(lock: Lock, code: str, symptom: str, cause: str, evidence: str) -> Finding:
    remedy = f"`provision build {lock.folder.name}` makes a fresh generation"
    return Finding(code, Level.ERROR, symptom, cause, remedy, (evidence,))
