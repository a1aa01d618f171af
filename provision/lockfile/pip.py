r"""Read and write the pip layer: ``lockfiles/<target>/requirements.txt``.

``pip install --require-hashes -r`` takes it as it is. One artifact is locked per distribution, and
comments under each entry hold what the format has no field for::

    numpy==2.4.6 \
        --hash=sha256:5b6d…
        # file: numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl
        # size: 16900000
        # record: 1f03…
        # index: default
        # via: accelerate, transformers

A wheel that was built has the index ``wheelhouse`` and two more: ``source``, an sdist, a URL or a
git commit, and ``build``, the requirements of the build with their hashes. The header names the own
packages of the spec (``local``) and the files beside it (``inputs``); its ``seal`` is the digest of
all the rest, its ``conda`` that of the other layer. There is no host, because hashes make the
source irrelevant, and no time, because the same input must give the same bytes.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import InvalidVersion, Version

from provision.core.errors import SpecError
from provision.core.hashing import sha256_bytes
from provision.core.limits import read_text
from provision.core.wheel_name import split_variant

SCHEMA = "2"
PIP_LAYER = "requirements.txt"
CONDA_LAYER = "conda-lock.yml"
WHEELHOUSE = "wheelhouse"  # the index of wheels that were built from source
_HEADER = re.compile(r"# (?P<key>[a-z-]+): (?P<value>.+)")
# A line of an entry. Any other is refused: pip would obey "-e" or "--index-url" or a requirement
# without a hash, and a lock has none of them.
_LINE = re.compile(r"""(?x)
    (?P<name>[a-z0-9-]+)==(?P<version>\S+)\ \\  |  [ ]{4}(?:
        --hash=sha256:(?P<sha256>[0-9a-f]{64})
        | \#[ ](?: file:[ ](?P<file>.+) | size:[ ](?P<size>\d{1,15})
            | record:[ ](?P<record>[0-9a-f]{64}) | index:[ ](?P<index>.+) | via:[ ](?P<via>.+)
            | source:[ ](?P<source>.+) | build:[ ](?P<build>.+) ))""")
_COMMENT = re.compile(r"^#.*\n|  # .*$", re.MULTILINE)  # of the conda layer
_SEAL = re.compile(r"^# seal: (.*)\n", re.MULTILINE)
# A wheel is written to disk under its name: no separator, no escape, no drive (PEP 427).
_WHEEL = re.compile(
    r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[A-Za-z0-9_.+!]+)(?:-[A-Za-z0-9_.+]+){3,4}\.whl"
)
_INDEX = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Artifact:
    """One locked wheel."""

    name: str  # of the distribution, normalised
    version: str  # with its local part, such as 2.13.0+cpu
    filename: str
    sha256: str
    size: int | None  # bytes; None where the index does not list it
    index: str  # of the catalog, or "default"
    via: tuple[str, ...]  # what requires it: distributions, or "the spec"
    source: str = ""  # what it was built from, see provision.artifacts.sources
    build: tuple[str, ...] = ()  # the requirements of its build, each with hashes
    record: str | None = None  # digest of its RECORD; None where that could not be read

    @property
    def variant(self) -> str:
        """The label of its variant (PEP 825); "" of a wheel that is none."""
        return split_variant(self.filename)[1]


@dataclass(frozen=True)
class Lock:
    """Both layers of one target; ``conda`` is the text of the second, if the target has one."""

    folder: Path
    header: dict[str, str]
    artifacts: tuple[Artifact, ...]
    conda: str | None

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of what the lock installs."""
        # Comments and the version of the resolver do not count: a new resolver that gives the same
        # packages must not make every environment out of date.
        lines = [f"python {self.header['python']} {self.header['platform']}"]
        lines += sorted(f"{a.name}=={a.version} {a.sha256}" for a in self.artifacts)
        lines.append(_COMMENT.sub("", self.conda or ""))
        if self.local:  # installed from folders that the lock does not cover
            digest = self.header.get("local-digest")
            lines.append(f"local {self.header['local']} {digest}")
        return sha256_bytes("\n".join(lines).encode())

    @property
    def local(self) -> frozenset[str]:
        """Names of the project's own packages, which are installed but not locked."""
        return frozenset(self.header.get("local", "").split(", ")) - {""}

    @property
    def versions(self) -> dict[str, str]:
        """Version by distribution name, pip layer."""
        return {artifact.name: artifact.version for artifact in self.artifacts}

    @property
    def open(self) -> tuple[Artifact, ...]:
        """Artifacts whose RECORD is not known: their files are compared with the cache only."""
        return tuple(artifact for artifact in self.artifacts if artifact.record is None)

    def with_records(self, known: Mapping[str, str]) -> Self:
        """Return the lock with the RECORDs of open artifacts, by the SHA-256 of the wheel."""
        artifacts = []
        for artifact in self.artifacts:
            record = artifact.record or known.get(artifact.sha256)
            artifacts.append(replace(artifact, record=record))
        return replace(self, artifacts=tuple(artifacts))


def read_lock(folder: Path) -> Lock:
    """Read the lock in a target's folder; SpecError if it is absent or was edited."""
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
    """Return the lock of two texts, whose folder need not exist; SpecError if one was edited."""
    path = folder / PIP_LAYER
    lines = pip.splitlines()
    header = {}
    for line in lines:
        if match := _HEADER.fullmatch(line):
            header[match["key"]] = match["value"]
    if header.get("schema") != SCHEMA or not {"python", "platform"} <= header.keys():
        raise refused(path, f": its header is not that of a lock with schema {SCHEMA}")
    # Before the seal, because an error with its line says more than a digest.
    artifacts = tuple(_entries(path, lines))
    if sealed(pip) != pip:
        seals = (n for n, line in enumerate(lines, 1) if line.startswith("# seal:"))
        fault = f", line {next(seals, 1)}: its seal is not that of its entries"
        raise refused(path, fault)
    digest = sha256_bytes(conda.encode()) if conda else None
    if header.get("conda") != digest:
        fault = f" is not the one that was locked with it ({PIP_LAYER} has its digest)"
        raise refused(folder / CONDA_LAYER, fault)
    return Lock(folder, header, artifacts, conda)


def refused(path: Path, fault: str, evidence: str = "") -> SpecError:
    """Return the error of a file of a lock that ``provision lock`` did not write like this."""
    return SpecError(
        f"{path}{fault}",
        evidence=evidence,
        cause="the file was edited, cut, or merged by hand, or an older "
        "Provision wrote it",
        remedy=f"run `provision lock {path.parent.name}`",
    )


def _entries(path: Path, lines: list[str]) -> Iterable[Artifact]:
    artifacts: dict[str, Artifact] = {}
    entry: dict[str, str] = {}
    start = 0
    for number, line in enumerate([*lines, ""], 1):
        text = line.strip()
        if entry and not text:  # an empty line ends it
            if fault := _fault(entry, artifacts):
                raise refused(path, f", line {start}: {entry['name']} {fault}")
            artifacts[entry["name"]] = _artifact(entry)
            entry = {}
        elif entry or (text and not line.startswith("#")):
            fields = _fields(line)
            is_first = "name" in fields
            # The name comes first, and nothing twice.
            if not fields or is_first == bool(entry) or fields.keys() & entry.keys():
                fault = f", line {number}: {text!r} is not a line of a lock"
                raise refused(path, fault)
            if is_first:
                start = number
            entry |= fields
    return artifacts.values()


def _fields(line: str) -> dict[str, str]:
    """Return what a line of an entry says; nothing where it is none."""
    match = _LINE.fullmatch(line)
    if not match:
        return {}
    return {key: text for key, text in match.groupdict().items() if text}


def _fault(entry: dict[str, str], artifacts: dict[str, Artifact]) -> str:
    absent = [key for key in ("sha256", "file", "index", "via") if key not in entry]
    if absent:
        return f"has no {' and no '.join(absent)}"
    if entry["name"] in artifacts:
        return "is there twice"
    if not _fits(entry):
        return f"is not in a wheel named {entry['file']!r}"
    if not _INDEX.fullmatch(entry["index"]):
        return f"cannot come from an index named {entry['index']!r}"
    return ""


def _fits(entry: dict[str, str]) -> bool:
    """Whether a wheel's file name is a bare one, and that of the entry's name and version."""
    try:
        plain, _ = split_variant(entry["file"])
    except InvalidWheelFilename:
        return False
    match = _WHEEL.fullmatch(plain)
    if not match or canonicalize_name(match["name"]) != entry["name"]:
        return False
    if match["version"] == entry["version"]:
        return True
    # 1.0.0rc1 and 1.0.0.rc1 are one version, and an escaped local part has underscores (PEP 427).
    try:
        return Version(match["version"]) == Version(entry["version"])
    except InvalidVersion:
        return False


def _artifact(entry: dict[str, str]) -> Artifact:
    build = entry.get("build")
    return Artifact(
        name=entry["name"],
        version=entry["version"],
        filename=entry["file"],
        sha256=entry["sha256"],
        size=int(entry["size"]) if "size" in entry else None,
        index=entry["index"],
        via=tuple(entry["via"].split(", ")),
        source=entry.get("source", ""),
        build=tuple(build.split(", ")) if build else (),
        record=entry.get("record"),
    )


def render_requirements(
    header: Mapping[str, str], artifacts: Iterable[Artifact]
) -> str:
    """Return the sealed text of the pip layer; :func:`parse_lock` reads it."""
    lines = [f"# schema: {SCHEMA}"]
    lines += [f"# {key}: {value}" for key, value in header.items()]
    # Sorted, so that the order of a resolver's output cannot change the bytes.
    for artifact in sorted(artifacts, key=lambda artifact: artifact.name):
        lines += ["", f"{artifact.name}=={artifact.version} \\"]
        lines.append(f"    --hash=sha256:{artifact.sha256}")
        notes = {
            "file": artifact.filename,
            "size": artifact.size,
            "record": artifact.record,
            "index": artifact.index,
            "via": ", ".join(artifact.via),
            "source": artifact.source,
            "build": ", ".join(artifact.build),
        }
        for key, note in notes.items():
            if note not in {None, ""}:
                lines.append(f"    # {key}: {note}")
    return sealed("\n".join(lines) + "\n")


def sealed(pip: str) -> str:
    """Return the text of a pip layer with the seal of what it holds, in its second line."""
    bare = _SEAL.sub("", pip)
    schema, rest = bare.split("\n", 1)
    return f"{schema}\n# seal: {sha256_bytes(bare.encode())}\n{rest}"
