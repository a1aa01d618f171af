"""What installed packages require: their metadata, where the lock of a project vouches for it."""

from collections.abc import Collection
from pathlib import Path

from provision.core.hashing import sha256_file
from provision.core.prefix import site_packages
from provision.environment.files import record_digests
from provision.environment.installed import InstalledDistribution
from provision.lockfile.pip import Artifact


def locked_requirements(
    prefix: Path, artifacts: Collection[Artifact]
) -> dict[str, tuple[str, ...]]:
    """Return the ``Requires-Dist`` lines of installed wheels, by the SHA-256 of the wheel.

    Metadata counts whose hash is in a RECORD that the lock has the digest of: an environment can be
    edited. What is not installed there, or of another wheel, is left out.
    """
    site = site_packages(prefix)
    if site is None:
        return {}
    requirements = {}
    for artifact in artifacts:
        stem = artifact.name.replace("-", "_")
        for folder in site.glob(f"{stem}-{artifact.version}.dist-info"):
            dist = InstalledDistribution(artifact.name, artifact.version, folder)
            if _is_locked(dist, artifact, prefix, site):
                requirements[artifact.sha256] = dist.requires
    return requirements


def _is_locked(
    dist: InstalledDistribution, artifact: Artifact, prefix: Path, site: Path
) -> bool:
    metadata = dist.folder / "METADATA"
    if not artifact.record or not metadata.is_file():
        return False
    if artifact.record not in record_digests(dist, prefix, site):
        return False
    name = metadata.relative_to(site).as_posix()
    hashes = [line.sha256 for line in dist.entries if line.path == name]
    return hashes == [sha256_file(metadata)]
