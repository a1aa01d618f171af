"""A target as ``pylock.toml`` (PEP 751), which pip and uv install without Provision."""

from collections.abc import Mapping

import tomlkit
from packaging.markers import Marker
from packaging.pylock import Package, PackageWheel, Pylock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.lockfile.pip import Artifact, Lock

MARKERS = {
    "linux-64": "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "win-64": "sys_platform == 'win32' and platform_machine == 'AMD64'",
}


def pylock(lock: Lock, urls: Mapping[Artifact, str], indexes: Mapping[str, str]) -> str:
    """Return the pip layer of a lock as a validated ``pylock.toml``.

    The address of each wheel is without credentials, or its path in the project.
    """
    document = Pylock(
        lock_version=Version("1.0"),
        environments=[Marker(MARKERS[lock.header["platform"]])],
        requires_python=SpecifierSet(f"=={lock.header['python']}.*"),
        created_by="provision",
        packages=[_package(artifact, urls[artifact], indexes) for artifact in lock.artifacts],
    )
    document.validate()
    return tomlkit.dumps(document.to_dict())


def _package(artifact: Artifact, url: str, indexes: Mapping[str, str]) -> Package:
    wheel = PackageWheel(
        name=artifact.filename,
        url=url if "://" in url else None,
        path=None if "://" in url else url,  # built from source
        size=artifact.size,
        hashes={"sha256": artifact.sha256},
    )
    return Package(
        name=canonicalize_name(artifact.name),
        version=Version(artifact.version),
        index=indexes.get(artifact.index),
        wheels=[wheel],
    )
