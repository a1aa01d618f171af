"""Read the conda layer: the packages of a ``conda-lock.yml``, with sizes in comments."""

import contextlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import Field

from provision.lockfile.pip import CONDA_LAYER, Lock, refused
from provision.spec.tables import Table, faults_of

SIZE = "{line}  # size: {size}"
# YAML writers quote a hash that could be read as a number.
_SIZE = re.compile(
    r"^ +sha256: '?(?P<sha256>[0-9a-f]{64})'?  # size: (?P<size>\d+)$", re.MULTILINE
)


class _Hashes(Table):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    md5: Annotated[str | None, Field(pattern=r"^[0-9a-f]{32}$")] = None


class CondaPackage(Table):
    """One locked package; the build string is only in the file name of its archive."""

    # All keys that conda-lock writes, also those that nothing reads: a Table refuses unknown ones.

    name: str
    version: str
    manager: Literal["conda"]
    platform: str
    dependencies: dict[str, str]
    # The archive is written to disk under the last part: no escape, no separator, no drive.
    url: Annotated[
        str,
        Field(pattern=r"/[a-z0-9-]+/\w[\w.+!-]*-[\w.+!]+-[\w.+!]+\.(conda|tar\.bz2)$"),
    ]
    hash: _Hashes
    category: str
    optional: bool
    size: int | None = None  # bytes; None where the lock has none

    @property
    def filename(self) -> str:
        """Name of the archive."""
        return self.url.rpartition("/")[2]

    @property
    def subdir(self) -> str:
        """The platform folder of the channel: the target's, or ``noarch``."""
        return self.url.split("/")[-2]

    @property
    def build(self) -> str:
        """The build string, such as ``h2466b09_7``."""
        stem = self.filename.removesuffix(".conda").removesuffix(".tar.bz2")
        return stem.rpartition("-")[2]

    @property
    def sha256(self) -> str:
        """SHA-256 of the archive."""
        return self.hash.sha256


class _Document(Table):
    version: Literal[1]
    metadata: dict[str, Any]
    package: tuple[CondaPackage, ...]


def conda_packages(lock: Lock) -> tuple[CondaPackage, ...]:
    """Return the packages of a lock's conda layer, if it has one; SpecError lists all errors."""
    if lock.conda is None:
        return ()
    # Few locks have this layer, and a parser of YAML takes long to load.
    from provision.core.yaml import load_yaml  # noqa: PLC0415

    try:
        data = load_yaml(lock.conda)
        _add_sizes(data, lock.conda)
        # Strict mode takes YAML's sequences for tuples only when they come as JSON.
        document = _Document.model_validate_json(json.dumps(data))
    except (ValueError, TypeError, RecursionError) as error:
        faults = "\n".join(faults_of(error, _Document))
        fault = f": cannot read the conda layer of {lock.folder.name}"
        raise refused(lock.folder / CONDA_LAYER, fault, faults) from error
    platform = lock.header["platform"]
    packages = {}
    for package in document.package:
        if package.platform != platform:
            continue
        name = f"{package.name} {package.version}"
        if package.name in packages:
            raise refused(lock.folder / CONDA_LAYER, f": {name} is there twice")
        if not package.filename.startswith(f"{package.name}-{package.version}-"):
            fault = f": {name} is not in an archive {package.filename!r}"
            raise refused(lock.folder / CONDA_LAYER, fault)
        packages[package.name] = package
    return tuple(packages.values())


def _add_sizes(data: Any, text: str) -> None:  # noqa: ANN401 - not validated yet
    sizes = {}
    for match in _SIZE.finditer(text):
        sizes[match["sha256"]] = int(match["size"])
    # Validation reports the error.
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        for entry in data["package"]:
            entry["size"] = sizes.get(entry["hash"]["sha256"])
