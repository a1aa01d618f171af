r"""Read and write the pip layer: ``lockfiles/<target>/requirements.txt``.

The file is a pip requirements file: ``pip install --require-hashes -r`` takes it as it is. One
artifact is locked per distribution, the best wheel for the target's platform, and comments under
each entry hold what the format has no field for::

    numpy==2.4.6 \
        --hash=sha256:5b6d…
        # file: numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl
        # size: 16900000
        # index: default
        # via: accelerate, transformers

A wheel that was built has the index ``wheelhouse`` and two more comments: ``source``, an sdist, a
URL or a git commit, and ``build``, the requirements of the build with their hashes. The header
names the own packages of the spec (``local``) and the files beside it (``inputs``).

It has no host, because hashes make the source irrelevant, and no time, because the same input must
give the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.core.errors import SpecError
from provision.core.limits import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SCHEMA = "1"
PIP_LAYER = "requirements.txt"
CONDA_LAYER = "conda-lock.yml"
WHEELHOUSE = "wheelhouse"  # the index of wheels that were built from source
# One pattern per kind of line. A line that matches none is refused: pip would obey "-e" or
# "--index-url" or a requirement without a hash, and a lock has none of them.
_HEADER = re.compile(r"# (?P<key>[a-z-]+): (?P<value>.+)")
_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+) \\")
_HASH = re.compile(r"    --hash=sha256:(?P<sha256>[0-9a-f]{64})")
_COMMENT = re.compile(r"^#.*\n|  # .*$", re.MULTILINE)  # of the conda layer
_NOTE = re.compile(
    r"    # (?:(?P<key>file|index|via|source|build): (?P<value>.+)|size: (?P<size>[0-9]{1,15}))"
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One locked wheel.

    Attributes:
        name: Distribution, normalised.
        version: Version with its local part, such as ``2.13.0+cpu``.
        filename: File name of the wheel.
        sha256: Its SHA-256, hexadecimal.
        size: Its size in bytes; None where the index does not list it.
        index: Catalog index that it comes from, or ``default``.
        via: What requires it: distributions, or ``the spec``.
        source: What it was built from; "" for a wheel of an index. See
            :mod:`provision.artifacts.sources`.
        build: The requirements of its build, each with hashes.
    """

    name: str
    version: str
    filename: str
    sha256: str
    size: int | None
    index: str
    via: tuple[str, ...]
    source: str = ""
    build: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lock:
    """Both layers of one target.

    Attributes:
        folder: Folder of the lock.
        header: Keys and values of the pip layer's header.
        artifacts: Wheels of the pip layer.
        conda: Text of the conda layer, if the target has one.
    """

    folder: Path
    header: dict[str, str]
    artifacts: tuple[Artifact, ...]
    conda: str | None

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of what the lock installs.

        Comments and the version of the resolver do not count: a new resolver that gives the same
        packages must not make every environment out of date.
        """
        lines = [f"python {self.header['python']} {self.header['platform']}"]
        lines += sorted(f"{a.name}=={a.version} {a.sha256}" for a in self.artifacts)
        lines.append(_COMMENT.sub("", self.conda or ""))
        if self.local:  # installed from folders that the lock does not cover
            lines.append(f"local {self.header['local']} {self.header.get('local-digest')}")
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def local(self) -> frozenset[str]:
        """Names of the project's own packages, which are installed but not locked."""
        return frozenset(self.header.get("local", "").split(", ")) - {""}

    @property
    def versions(self) -> dict[str, str]:
        """Version by distribution name, pip layer."""
        return {artifact.name: artifact.version for artifact in self.artifacts}


def read_lock(folder: Path) -> Lock:
    """Read the lock in a target's folder.

    Raises:
        SpecError: It is absent, or has a line that ``provision lock`` does not write.
    """
    conda = folder / CONDA_LAYER
    try:
        pip = read_text(folder / PIP_LAYER)
        return parse_lock(folder, pip, read_text(conda) if conda.is_file() else None)
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"no lock for {folder.name}",
            evidence=str(error),
            remedy=f"run `provision lock {folder.name}`",
        ) from error


def parse_lock(folder: Path, pip: str, conda: str | None) -> Lock:
    """Return the lock of two texts.

    Args:
        folder: Folder of the lock, which may not exist yet.
        pip: Text of the pip layer.
        conda: Text of the conda layer, where there is one.

    Raises:
        SpecError: The pip layer has a line that ``provision lock`` does not write.
    """
    path, lines = folder / PIP_LAYER, pip.splitlines()
    header = {m["key"]: m["value"] for m in map(_HEADER.fullmatch, lines) if m}
    if header.get("schema") != SCHEMA or not {"python", "platform"} <= header.keys():
        raise SpecError(
            f"{path}: its header is not that of a lock with schema {SCHEMA}",
            remedy=f"run `provision lock {folder.name}`",
        )
    return Lock(folder, header, tuple(_entries(path, lines)), conda)


def _entries(path: Path, lines: list[str]) -> list[Artifact]:
    found: list[Artifact] = []
    entry: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        if match := _PIN.fullmatch(line):
            _close(path, entry, found)
            entry = {**match.groupdict(), "line": str(number)}
        elif entry and (match := _HASH.fullmatch(line)):
            entry |= match.groupdict()
        elif entry and (match := _NOTE.fullmatch(line)):
            entry |= {"size": match["size"]} if match["size"] else {match["key"]: match["value"]}
        else:
            raise SpecError(
                f"{path}, line {number}: {line.strip()!r} is not a line of a lock",
                cause="the file was edited, or has conflict markers of a merge",
                remedy=f"run `provision lock {path.parent.name}`",
            )
    _close(path, entry, found)
    return found


def _close(path: Path, entry: dict[str, str], found: list[Artifact]) -> None:
    if not entry:
        return
    if absent := [key for key in ("sha256", "file", "index", "via") if key not in entry]:
        raise SpecError(
            f"{path}, line {entry['line']}: {entry['name']} has no {' and no '.join(absent)}",
            remedy=f"run `provision lock {path.parent.name}`",
        )
    found.append(
        Artifact(
            name=entry["name"],
            version=entry["version"],
            filename=entry["file"],
            sha256=entry["sha256"],
            size=int(entry["size"]) if "size" in entry else None,
            index=entry["index"],
            via=tuple(entry["via"].split(", ")),
            source=entry.get("source", ""),
            build=tuple(filter(None, entry.get("build", "").split(", "))),
        )
    )


def render_requirements(header: Mapping[str, str], artifacts: Iterable[Artifact]) -> str:
    """Return the text of the pip layer; :func:`parse_lock` reads it."""
    # Sorted below, so that the order of a resolver's output cannot change the bytes.
    lines = [f"# {key}: {value}" for key, value in ({"schema": SCHEMA} | dict(header)).items()]
    for artifact in sorted(artifacts, key=lambda artifact: artifact.name):
        lines += ["", *_lines(artifact)]
    return "\n".join(lines) + "\n"


def _lines(artifact: Artifact) -> list[str]:
    size = [f"    # size: {artifact.size}"] if artifact.size is not None else []
    source = [f"    # source: {artifact.source}"] if artifact.source else []
    source += [f"    # build: {', '.join(artifact.build)}"] if artifact.build else []
    return [
        f"{artifact.name}=={artifact.version} \\",
        f"    --hash=sha256:{artifact.sha256}",
        f"    # file: {artifact.filename}",
        *size,
        f"    # index: {artifact.index}",
        f"    # via: {', '.join(artifact.via)}",
        *source,
    ]
