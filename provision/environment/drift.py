"""Compare distributions with a lock by version, and conda packages by archive; hashes no file."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING

from provision.core.findings import Finding, Level
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
            cause = "it was uninstalled after the build"
            evidence = f"the lock has {name} {version}"
            yield _drift(lock, "missing-package", f"{name} is not installed", cause, evidence)
        elif found.version != version:
            symptom = f"{name} {version} was replaced by {found.version}"
            yield _drift(lock, "version-drift", symptom, *_replaced_by(found, unlocked))
    for dist in unlocked:
        symptom = f"{dist.name or dist.folder.name} {dist.version} is not locked"
        cause = f"{dist.installer} added it after the build"
        yield _drift(lock, "unlocked-package", symptom, cause, str(dist.folder))
    # installed_distributions() sorts by name, so duplicates are neighbours.
    for first, second in itertools.pairwise(installed):
        if first.name == second.name:
            symptom = f"{first.name} is installed twice: {first.version} and {second.version}"
            cause = "a second installation did not remove the first"
            yield _drift(lock, "half-installed-package", symptom, cause, str(second.folder))


def _replaced_by(
    found: InstalledDistribution, unlocked: list[InstalledDistribution]
) -> tuple[str, str]:
    """Return the likely cause of a replaced version, and the evidence for it.

    Usually somebody installed another package into the environment, and the resolver replaced the
    requirements that did not suit it. That package is not in the lock and names this one in its
    Requires-Dist.
    """
    for dist in unlocked:
        for requirement in dist.requires:
            if name_of(requirement) == found.name:
                cause = f"`{found.installer} install {dist.name}` replaced it"
                return cause, f"{dist.name} {dist.version} requires {requirement}"
    return f"{found.installer} replaced it after the build", str(found.folder)


def moved_findings(prefix: Path, lock: Lock) -> Iterator[Finding]:
    """Yield whether an environment lies elsewhere than it was built; an unfinished one does not."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        record = json.loads((prefix / RECORD).read_bytes())
        if why := misplaced(prefix, str(record.get("path", ""))):
            symptom = f"{prefix} {why}"
            cause = "the project was moved, copied or restored from a backup"
            yield _drift(lock, "moved-environment", symptom, cause, f"it lies at {prefix}")


def conda_findings(installed: list[InstalledCondaPackage], lock: Lock) -> Iterator[Finding]:
    """Yield what differs between the installed conda packages and the conda layer of a lock.

    Archives are compared by hash: two builds of one version differ, and a channel may rebuild.
    """
    # With no layer on either side there is nothing to compare, and pydantic need not be loaded.
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
    by_name = {dist.name: dist for dist in installed}
    for entry in forbid:
        if entry.name in by_name:
            yield Finding(
                "forbidden-package",
                Level.ERROR,
                f"{entry.name} {by_name[entry.name].version} must not be in this environment",
                entry.reason,
                f"uninstall it, or build the target that is made for {entry.name}",
                (str(by_name[entry.name].folder),),
            )


def _drift(lock: Lock, code: str, symptom: str, cause: str, evidence: str) -> Finding:
    remedy = f"`provision build {lock.folder.name}` makes a fresh generation"
    return Finding(code, Level.ERROR, symptom, cause, remedy, (evidence,))
