"""Is what is installed what is locked? Which file drifted?"""

from __future__ import annotations

import hashlib
import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.core.errors import ToolError
from provision.core.filesystem import extended
from provision.core.findings import Finding, Level
from provision.core.hashing import sha256_below, sha256_bytes
from provision.core.prefix import site_packages
from provision.core.text import plural
from provision.environment.conda_meta import conda_dist_infos, installed_conda_packages
from provision.environment.installed import installed_distributions, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from provision.environment.conda_meta import InstalledCondaPackage
    from provision.environment.installed import InstalledDistribution
    from provision.environment.wheel_record import RecordEntry
    from provision.lockfile.pip import Lock
    from provision.spec.parts import ForbiddenDistribution

# What an installer writes about itself; it differs between machines and says nothing of the code.
_NOISE = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Verification:
    """What a comparison of an environment with its lock found.

    Attributes:
        findings: Nothing means that the two are equal.
        distributions: How many are installed.
        files: How many files they recorded.
        size: Of those files, in bytes.
        drifted: Distributions that are missing, replaced or damaged.
        tree: SHA-256 over the paths and hashes of all files, equal on every machine that built
            the same lock; None unless every file was hashed.
    """

    findings: tuple[Finding, ...]
    distributions: int
    files: int
    size: int
    drifted: tuple[str, ...]
    tree: str | None


def verify(
    prefix: Path, lock: Lock, forbid: Iterable[ForbiddenDistribution], *, deep: bool
) -> Verification:
    """Compare an environment with its lock.

    Args:
        prefix: The environment.
        lock: What should be in it.
        forbid: Distributions that must not be in it, whoever asks for them.
        deep: Hash every file instead of comparing sizes.

    Raises:
        ToolError: There is no environment at ``prefix``.
    """
    site = site_packages(prefix)
    if site is None:
        raise ToolError(
            f"{prefix} is no Python environment", remedy=f"build {lock.folder.name} again"
        )
    brought = installed_conda_packages(prefix, site)
    of_conda = conda_dist_infos(brought)
    found = installed_distributions(site)
    installed = [dist for dist in found if dist.folder.name not in of_conda]
    every: list[InstalledDistribution | InstalledCondaPackage] = [*installed, *brought]
    records = {dist.folder: dist.files() or [] for dist in every}
    # Of a conda prefix the standard library is looked through as well: it is not the system's.
    on_disk = dict(_walk(site.parent, above=f"{site.name}/") if brought else _walk(site))
    findings = [
        *_conda_against_lock(brought, lock),
        *_against_lock(installed, lock),
        *_forbidden(installed, forbid),
        *_unrecorded(on_disk, records.values()),
    ]
    hashes = _hash_all(site, records, on_disk) if deep else {}
    damaged: set[str] = set()
    for dist in every:
        if faults := list(_damaged(dist, site, records[dist.folder], on_disk, hashes)):
            findings += faults
            damaged.add(dist.name)
    here = {dist.name: dist.version for dist in installed}
    replaced = {name for name, version in lock.versions.items() if here.get(name) != version}
    return Verification(
        findings=tuple(findings),
        distributions=len(every),
        files=sum(map(len, records.values())),
        size=sum(on_disk.values()),
        drifted=tuple(sorted(damaged | replaced)),
        tree=_tree_digest(prefix, site, hashes, brought) if deep else None,
    )


def _walk(top: Path, above: str = "") -> Iterator[tuple[str, int]]:
    """Yield every file below a folder, relative with forward slashes, and its size.

    Args:
        top: The folder.
        above: Paths are told relative to this folder just below ``top``.
    """
    for path, size in _walk_plain(top):
        yield (path.removeprefix(above) if path.startswith(above) else f"../{path}"), size


def _walk_plain(top: Path) -> Iterator[tuple[str, int]]:
    folders = [(extended(top), "")]
    while folders:
        folder, base = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        folders.append((entry.path, f"{base}{entry.name}/"))
                else:
                    yield base + entry.name, entry.stat().st_size


def _against_lock(installed: list[InstalledDistribution], lock: Lock) -> Iterator[Finding]:
    here = {dist.name: dist for dist in installed}
    strangers = [here[name] for name in sorted(here.keys() - lock.versions.keys())]
    for name, version in lock.versions.items():
        found = here.get(name)
        if found is None:
            cause = "it was uninstalled after the build"
            evidence = f"the lock has {name} {version}"
            yield _differs(lock, "missing-package", f"{name} is not installed", cause, evidence)
        elif found.version != version:
            symptom = f"{name} {version} was replaced by {found.version}"
            yield _differs(lock, "version-drift", symptom, *_culprit(found, strangers))
    for stranger in strangers:
        symptom = f"{stranger.name or stranger.folder.name} {stranger.version} is not locked"
        cause = f"{stranger.installer} added it after the build"
        yield _differs(lock, "unlocked-package", symptom, cause, str(stranger.folder))
    for twin, other in itertools.pairwise(installed):
        if twin.name == other.name:
            symptom = f"{twin.name} is there twice: {twin.version} and {other.version}"
            cause = "a second installation did not remove the first"
            yield _differs(lock, "half-installed-package", symptom, cause, str(other.folder))


def _culprit(
    found: InstalledDistribution, strangers: list[InstalledDistribution]
) -> tuple[str, str]:
    """Return who replaced a package, as cause and evidence."""
    for stranger in strangers:
        for line in stranger.requires:
            if name_of(line) == found.name:
                cause = f"`{found.installer} install {stranger.name}` did it"
                return cause, f"{stranger.name} {stranger.version} requires {line}"
    return f"{found.installer} replaced it after the build", str(found.folder)


def _conda_against_lock(brought: list[InstalledCondaPackage], lock: Lock) -> Iterator[Finding]:
    if lock.conda is None and not brought:
        return
    from provision.lockfile.conda import conda_packages  # noqa: PLC0415 - slow, and most locks have no conda layer

    here = {package.name: package for package in brought}
    wanted = {package.name: package for package in conda_packages(lock)}
    cause = "conda, mamba or another tool changed the conda layer after the build"
    for name in sorted(wanted.keys() | here.keys()):
        found, package = here.get(name), wanted.get(name)
        if found and package and found.sha256 == package.sha256:
            continue
        has = f"{found.version}, sha256 {found.sha256}" if found else "not installed"
        locked = f"{package.version}, sha256 {package.sha256}" if package else "not locked"
        symptom = f"the conda package {name} is not as locked"
        evidence = f"installed: {has}; locked: {locked}"
        yield _differs(lock, "conda-drift", symptom, cause, evidence)


def _differs(lock: Lock, code: str, symptom: str, cause: str, evidence: str) -> Finding:
    remedy = f"`provision build {lock.folder.name}` makes a fresh generation"
    return Finding(code, Level.ERROR, symptom, cause, remedy, (evidence,))


def _forbidden(
    installed: list[InstalledDistribution], forbid: Iterable[ForbiddenDistribution]
) -> Iterator[Finding]:
    here = {dist.name: dist for dist in installed}
    for entry in forbid:
        if entry.name in here:
            yield Finding(
                "forbidden-package",
                Level.ERROR,
                f"{entry.name} {here[entry.name].version} must not be in this environment",
                entry.reason,
                f"uninstall it, or build the target that is made for {entry.name}",
                (str(here[entry.name].folder),),
            )


def _unrecorded(on_disk: dict[str, int], records: Iterable[list[RecordEntry]]) -> Iterator[Finding]:
    known = {line.path for record in records for line in record}
    if strangers := sorted(on_disk.keys() - known):
        yield Finding(
            "unrecorded-file",
            Level.ERROR,
            f"{plural(len(strangers), 'file')} in site-packages not of any distribution",
            "something was copied there by hand; a .pth or sitecustomize.py changes every start, "
            "and a module can shadow a locked one",
            "remove them, or build again",
            _shortened(strangers),
        )


def _hash_all(
    site: Path, records: dict[Path, list[RecordEntry]], on_disk: dict[str, int]
) -> dict[str, str]:
    sizes: dict[str, int] = {}
    for record in records.values():
        for line in record:
            if line.path in on_disk:
                sizes[line.path] = on_disk[line.path]
            elif line.path.startswith("../") and (site / line.path).is_file():
                sizes[line.path] = (site / line.path).stat().st_size
    return sha256_below(site, sizes)


def _damaged(
    dist: InstalledDistribution | InstalledCondaPackage,
    site: Path,
    record: list[RecordEntry],
    on_disk: dict[str, int],
    hashes: dict[str, str],
) -> Iterator[Finding]:
    if not record and dist.folder.suffix == ".dist-info":  # a conda package may hold no file
        yield Finding(
            "half-installed-package",
            Level.ERROR,
            f"{dist.name or dist.folder.name} has no readable RECORD",
            "its installation or removal was cut short",
            "build again",
            (str(dist.folder / "RECORD"),),
        )
    changed = [
        line.path
        for line in record
        if not line.path.endswith(".pyc") and _has_changed(line, site, on_disk, hashes)
    ]
    if changed:
        yield Finding(
            "changed-file",
            Level.ERROR,
            f"{plural(len(changed), 'file')} of {dist.name} missing or not as its RECORD says",
            "they were edited or removed after the build, or the installer's cache is damaged",
            "build again; if it stays, empty the cache with `uv cache clean` first",
            _shortened(changed),
        )


def _has_changed(
    line: RecordEntry, site: Path, on_disk: dict[str, int], hashes: dict[str, str]
) -> bool:
    if not line.hash and not line.length:  # a link, or RECORD itself: it has to be there
        return not os.path.lexists(site / line.path)
    if line.path in hashes and (recorded := line.sha256):
        return hashes[line.path] != recorded
    size = on_disk.get(line.path)
    if size is None:
        path = site / line.path  # a script, which lies outside site-packages
        size = path.stat().st_size if path.is_file() else None
    return size is None or (line.size is not None and size != line.size)


def _shortened(paths: list[str]) -> tuple[str, ...]:
    rest = len(paths) - _SHOWN
    return (*paths[:_SHOWN], *([f"… and {rest} more"] if rest > 0 else []))


def _tree_digest(
    prefix: Path, site: Path, hashes: dict[str, str], brought: list[InstalledCondaPackage]
) -> str:
    total = hashlib.sha256()
    shipped = {path: digest for package in brought for path, digest in package.shipped.items()}
    for path, digest in sorted((hashes | shipped).items()):
        if path.endswith(".pyc") or path.rpartition("/")[2] in _NOISE:
            continue
        if path.startswith("../") and path not in shipped:  # a script's first line holds the prefix
            content = (site / path).read_bytes().replace(str(prefix).encode(), b"{prefix}")
            digest = sha256_bytes(content)  # noqa: PLW2901
        total.update(f"{path} {digest}\n".encode())
    return total.hexdigest()
