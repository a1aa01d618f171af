"""Compare an environment with its lock: distributions, conda packages, and every file.

The chain of trust is lock → wheel → the wheel's RECORD → file. The installer checks the first link
when it downloads a wheel. It then links files, RECORD among them, from a cache that anybody can
edit, so the rest is checked here: the RECORD against the digest in the lock, each file against the
RECORD. Nothing of the environment or the cache vouches for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.core.errors import ToolError
from provision.core.prefix import site_packages
from provision.environment import drift, files
from provision.environment.conda_meta import conda_dist_infos, installed_conda_packages
from provision.environment.findings import finding
from provision.environment.installed import InstalledDistribution, installed_distributions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from provision.core.findings import Finding
    from provision.environment.conda_meta import InstalledCondaPackage
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
    """Compare an environment with its lock, and hash every file if it is to go deep.

    What is forbidden must not be in it, even as a requirement of a locked distribution.

    Raises:
        ToolError: There is no environment at ``prefix``.
    """
    site = site_packages(prefix)
    if site is None:
        remedy = f"build {lock.folder.name} again"
        raise ToolError(f"{prefix} is not a Python environment", remedy=remedy)
    conda = installed_conda_packages(prefix, site)
    # A conda package of a Python library has a .dist-info as well; conda-meta answers for it.
    of_conda = conda_dist_infos(conda)
    found = installed_distributions(site)
    installed = [dist for dist in found if dist.folder.name not in of_conda]
    every: list[InstalledDistribution | InstalledCondaPackage] = [*installed, *conda]
    records = {dist.folder: dist.files() or [] for dist in installed}
    records |= {package.folder: package.entries for package in conda}
    # The files of own packages are known, and are not compared.
    every = [dist for dist in every if dist.name not in lock.local]
    compared = [records[dist.folder] for dist in every]
    on_disk = files.list_files(site, with_stdlib=bool(conda))
    findings = [
        *drift.moved_findings(prefix, lock),
        *drift.conda_findings(conda, lock),
        *drift.distribution_findings(installed, lock),
        *drift.forbidden_findings(installed, forbid),
        *files.unrecorded_findings(on_disk, records.values()),
    ]
    hashes = files.hash_files(site, compared, on_disk) if deep else {}
    damaged: set[str] = set()
    locked = {(artifact.name, artifact.version): artifact for artifact in lock.artifacts}
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
                faults.append(finding("foreign-record", str(dist.folder / "RECORD"), dist=dist))
        findings += faults
        damaged |= {dist.name} if faults else set()
    # `verify --repair` removes these from uv's cache before it builds again.
    versions = {dist.name: dist.version for dist in installed}
    replaced = {name for name, version in lock.versions.items() if versions.get(name) != version}
    return Verification(
        findings=tuple(findings),
        distributions=len(every),
        files=sum(map(len, compared)),
        size=sum(on_disk.values()),
        drifted=tuple(sorted(damaged | replaced)),
        unvouched=unvouched,
        tree=files.tree_digest(prefix, site, hashes, conda) if deep else None,
    )
