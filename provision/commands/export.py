"""The verb ``export``: a target in the format of another installer."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from packaging.pylock import is_valid_pylock_path

from provision.catalog.simple_index import list_files
from provision.catalog.snapshot import Index, load_snapshot
from provision.core import network
from provision.core.errors import ToolError, UsageError
from provision.core.filesystem import write_atomic
from provision.core.hashing import sha256_file
from provision.core.interruption import in_threads
from provision.core.limits import read_if_any
from provision.core.privacy import redact
from provision.core.project import Project
from provision.installer.plan import ArtifactSources
from provision.lockfile import formats
from provision.lockfile.pip import WHEELHOUSE, Artifact, Lock
from provision.spec.model import Target

Format = Literal["pylock", "requirements", "environment", "html", "docker"]
Addresses = dict[tuple[str, str], str]  # index and file -> URL, or path in the project


@dataclass(frozen=True, slots=True)
class Export:
    """A target in another format, or what is made of it: its page, the command of its image."""

    target: str
    """Name of the target."""
    format: Format
    """As `--format` names it; `html`: the page of `report`; `docker`: the command of `docker
    --print`.
    """
    file: Path | None
    """Where it was written; null where the text is the result."""
    text: str
    """The text in that format; empty of `html`, whose file has it."""
    lost: tuple[str, ...]
    """What the format does not hold of the lock."""
    notes: tuple[str, ...] = ()
    """What its user has to know."""


def export(
    project: Project,
    target: Target,
    lock: Lock,
    *,
    supply: ArtifactSources,
    kind: Format,
    file: Path | None,
) -> Export:
    """Return a target in another format, and write the file.

    Raises ToolError if a wheel is not listed, UsageError for a file that is not to be written.
    """
    if kind == "pylock" and file and not is_valid_pylock_path(file):
        raise UsageError(
            f"{file.name} is not a name for this format",
            cause="pip and uv know the format by the name: pylock.toml or pylock.<word>.toml",
            remedy="name it pylock.toml",
        )
    if file and file.is_file():
        signature = formats.SIGNATURES[kind].encode()
        if signature not in (read_if_any(file) or b""):
            raise UsageError(
                f"{file} exists, and was not made by this export",
                remedy="name another file, or remove it first",
            )
    # Sorted, and only those in use: the same lock gives the same text.
    used = {artifact.index for artifact in lock.artifacts} - {"default", WHEELHOUSE}
    indexes = {name: str(supply.indexes[name]) for name in sorted(used)}
    if kind == "pylock":
        addresses = _catalog_addresses(project, used)
        addresses |= _wheelhouse_addresses(project, lock)
        addresses |= _default_addresses(lock, supply.indexes["default"])
        _require_all(lock, addresses)
        text = formats.pylock(
            lock, indexes, lambda wheel: addresses[wheel.index, wheel.filename]
        )
    elif kind == "requirements":
        text = formats.requirements(lock, indexes)
    else:
        text = formats.environment(target, lock, indexes)
    if file:
        write_atomic(file, text)
    return Export(target.name, kind, file, text, formats.lost(target, lock, kind))


def _catalog_addresses(project: Project, indexes: set[str]) -> Addresses:
    """Return the addresses of all wheels of vendors' indexes."""
    addresses = {}
    for name in indexes:
        for wheel in load_snapshot(project.catalog, name, Index).files:
            addresses[name, wheel.filename] = wheel.url
    return addresses


def _wheelhouse_addresses(project: Project, lock: Lock) -> Addresses:
    """Return the paths of the wheels that were built from source, by their hashes."""
    addresses = {}
    for artifact in lock.artifacts:
        if not artifact.source:
            continue
        for path in project.wheelhouse.glob(f"*/{artifact.filename}"):
            if sha256_file(path) == artifact.sha256:
                relative = path.relative_to(project.root).as_posix()
                addresses[WHEELHOUSE, path.name] = relative
    return addresses


def _default_addresses(lock: Lock, index: str | None) -> Addresses:
    """Ask the default index where its wheels can be downloaded."""
    artifacts = [a for a in lock.artifacts if a.index == "default"]
    names = [artifact.name for artifact in artifacts]
    addresses = {}
    with network.session() as session:
        list_names = partial(list_files, session, index)
        pages = in_threads(list_names, names, network.PARALLEL_REQUESTS)
    for artifact, packages in zip(artifacts, pages, strict=True):
        # By hash: a mirror may hold another file under the name.
        for package in packages:
            if package.digests.get("sha256") == artifact.sha256:
                url = _without_login(package.url)
                addresses["default", artifact.filename] = url
    return addresses


def _require_all(lock: Lock, addresses: Addresses) -> None:
    missing: list[Artifact] = []
    for artifact in lock.artifacts:
        if (artifact.index, artifact.filename) not in addresses:
            missing.append(artifact)
    if missing:
        raise ToolError(
            f"no address is known for {len(missing)} of {len(lock.artifacts)} wheels",
            evidence="\n".join(artifact.filename for artifact in missing),
            cause="the index no longer lists them, or lists no sha256",
            remedy="lock again, or use `--format requirements`, which needs no address",
        )


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return redact(parts._replace(netloc=host, fragment="").geturl())
