"""Committed snapshots of wheel indexes, conda channels, driver releases and Pythons.

``envs/catalog/<name>.json`` has for each file the facts of its index and its metadata, and their
source. Only ``provision update`` changes them, so a lock depends on the commit and not on the day.
Editors read what a key means from the schemas beside them, ``<kind>.schema.json``.
"""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from packaging.utils import InvalidWheelFilename
from packaging.version import Version
from pydantic import AfterValidator, Field, ValidationError

from provision.core.errors import SpecError
from provision.core.limits import read_bytes, read_parsed, read_text
from provision.core.privacy import holds_secret
from provision.core.program import program_name
from provision.core.project import fact, shipped
from provision.core.text import nearest, plural
from provision.core.wheel_name import parse_wheel_name, split_variant
from provision.spec.model import FileStem, Specifier, parse_requirement
from provision.spec.tables import Table, faults_of

# A snapshot's name, which is its file's.
SNAPSHOT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
Snapshot = TypeVar("Snapshot", "Index", "Channel", "DriverSet", "Interpreters")


def _wheel(filename: str) -> str:
    try:
        parse_wheel_name(filename)
    except InvalidWheelFilename as error:
        raise ValueError(f"{filename!r} is not the name of a wheel: {error}") from error
    return filename


@lru_cache(maxsize=10_000)  # those of a package are in each of its wheels
def _requirement(text: str) -> str:
    parse_requirement(text)
    return text


_Requirement = Annotated[str, AfterValidator(_requirement)]


_DEB = re.compile(r"[a-z0-9][a-z0-9+.-]+_[A-Za-z0-9.+~-]+_(?:amd64|all)\.deb")


def _deb(filename: str) -> str:
    if not _DEB.fullmatch(filename):
        raise ValueError(f"{filename!r} is not the name of a Debian package")
    return filename


def _open_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError(f"{parts.scheme or 'this'} is not a web address")
    if parts.username or parts.password or holds_secret(url):
        raise ValueError(
            "contains a user name, password or token, which must not be committed"
        )
    return url


# http is allowed for an internal mirror: the hash decides what is installed, not the transport.
Url = Annotated[str, AfterValidator(_open_url)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Glibc = Annotated[str, Field(pattern=r"^2\.[0-9]+$")]
_Bytes = Annotated[int, Field(gt=0)]
# Of Linux with glibc, without debug symbols: what an image needs.
_ARCHIVE = re.compile(
    r"cpython-(?P<version>3\.[0-9]+\.[0-9]+)\+(?P<build>[0-9]{8})"
    r"-(?P<machine>x86_64|aarch64)-unknown-linux-gnu-install_only_stripped\.tar\.gz"
)


def _archive(filename: str) -> re.Match[str]:
    match = _ARCHIVE.fullmatch(filename)
    if match is None:
        raise ValueError(f"{filename!r} is no archive of a Python for images")
    return match


class Wheel(Table):
    """One file of an index."""

    filename: Annotated[str, AfterValidator(_wheel)]
    url: Url
    # None where the index publishes none and it was not hashed yet.
    sha256: Sha256 | None = None
    size: _Bytes | None = None
    # Digest of its RECORD, as locks have it; None where never read.
    record: Sha256 | None = None
    requires_python: Specifier | None = None
    # Of its metadata; None where never read.
    requires_dist: tuple[_Requirement, ...] | None = None
    basis: str | None = None  # where requires_dist was read from
    # Whether the index, or two independent public files, list the hash.
    confirmed: bool = False
    sources: tuple[str, ...] = ()  # public files that list the hash
    # Hashes of what the vendor offered under this name besides.
    replaced: tuple[Sha256, ...] = ()
    note: str | None = None

    @property
    def name(self) -> str:
        """The distribution, normalised."""
        return parse_wheel_name(self.filename).name

    @property
    def version(self) -> str:
        """The version with its local part."""
        return str(parse_wheel_name(self.filename).version)

    @property
    def variant(self) -> str:
        """The label of its variant (PEP 825); "" of a wheel that is none."""
        return parse_wheel_name(self.filename).variant

    @property
    def served_name(self) -> str:
        """The name of the file without its variant label, which resolvers refuse."""
        return split_variant(self.filename)[0]

    @property
    def lacks(self) -> str:
        """What is missing for it to be locked; "" if nothing is."""
        if self.sha256 is None:
            return "its SHA-256 is unknown"
        return "its requirements are unknown" if self.requires_dist is None else ""


class Index(Table):
    """A vendor's wheel index."""

    schema_: Annotated[str, Field(alias="$schema")] = "index.schema.json"
    url: Url
    files: tuple[Wheel, ...]

    def of(self, name: str) -> tuple[Wheel, ...]:
        """Return the wheels of one distribution."""
        return tuple(wheel for wheel in self.files if wheel.name == name)


class ChannelPackage(Table):
    """One package of a conda channel, in the fields of its repodata."""

    name: str
    version: str
    build: str
    build_number: int
    subdir: FileStem  # a platform, or `noarch`
    url: Url
    sha256: Sha256
    md5: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    size: _Bytes
    depends: tuple[str, ...]
    constrains: tuple[str, ...] = ()
    noarch: Literal["python", "generic"] | None = None
    timestamp: int  # milliseconds since 1970; the solver prefers later builds
    sources: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]


class Channel(Table):
    """A conda channel."""

    schema_: Annotated[str, Field(alias="$schema")] = "channel.schema.json"
    url: Url
    packages: tuple[ChannelPackage, ...]


class DriverFile(Table):
    """One Debian package of a driver release."""

    filename: Annotated[str, AfterValidator(_deb)]
    url: Url | None = None  # None: a distribution's, which apt has while it is current
    sha256: Sha256 | None = None  # while no public file lists it; never guessed
    size: _Bytes | None = None
    # Whether the vendor's file has the hash, or two public files list it.
    confirmed: bool = False
    sources: tuple[str, ...] = ()  # public files that list the hash

    @property
    def package(self) -> str:
        """The name of the package."""
        return self.filename.partition("_")[0]


class DriverSet(Table):
    """The user space of a GPU driver for images: packages of one release, which fit together."""

    schema_: Annotated[str, Field(alias="$schema")] = "driverset.schema.json"
    version: str  # the driver's, which a spec's hardware.driver is compared with
    note: str
    source: str  # where these versions are said to fit together
    glibc: Glibc | None = None  # the oldest that its packages run on; None: not known
    files: Annotated[tuple[DriverFile, ...], Field(min_length=1)]


class Interpreter(Table):
    """One archive of a Python that runs from any folder of any Linux."""

    filename: Annotated[str, AfterValidator(lambda text: _archive(text) and text)]
    url: Url
    sha256: Sha256
    sources: tuple[str, ...] = ()  # public files that list the hash

    @property
    def version(self) -> Version:
        """Python's version."""
        return Version(_archive(self.filename)["version"])

    @property
    def release(self) -> str:
        """Python's version and the date of its build."""
        return "+".join(_archive(self.filename).group("version", "build"))

    @property
    def processor(self) -> str:
        """The processor, in uv's words."""
        return _archive(self.filename)["machine"]


class Interpreters(Table):
    """Pythons of python-build-standalone for images."""

    schema_: Annotated[str, Field(alias="$schema")] = "interpreters.schema.json"
    url: Url  # what names the latest release
    files: Annotated[tuple[Interpreter, ...], Field(min_length=1)]


def snapshot_names(folder: Path) -> list[str]:
    """Return the names of all snapshots, a catalog's own and the shipped ones, sorted."""
    files = (*folder.glob("*.json"), *shipped().catalog.glob("*.json"))
    return sorted({path.stem for path in files if "." not in path.stem})


def names_of(folder: Path, model: type[Snapshot]) -> list[str]:
    """Return the names of the snapshots of one kind, sorted."""
    return [name for name in snapshot_names(folder) if is_kind(folder, name, model)]


def is_kind(folder: Path, name: str, model: type[Snapshot]) -> bool:
    """Whether a snapshot is of one kind."""
    path = fact(folder, f"{name}.json")
    schema = str(model.model_fields["schema_"].default)
    # It is named first, and a snapshot is up to megabytes long.
    return path.is_file() and schema in read_text(path)[:200]


@lru_cache(maxsize=16)
def _validated(model: type[Snapshot], content: bytes) -> Snapshot:
    """Return what a file holds: by its bytes, as ``init`` reads an index for each package of it."""
    return model.model_validate_json(content)


def load_snapshot(folder: Path, name: str, model: type[Snapshot]) -> Snapshot:
    """Read a snapshot; SpecError, with all its errors, if it is missing or not valid."""
    path = fact(folder, f"{name}.json")
    # The bytes go to pydantic as they are: its own JSON parser is faster than json.loads.
    try:
        snapshot: Snapshot = _validated(model, read_bytes(path))
    except OSError as error:
        raise no_catalog(folder, name, str(error)) from error
    except ValidationError as error:
        faults = faults_of(error, model)
        raise SpecError(
            f"{path} has {plural(len(faults), 'error')}",
            evidence="\n".join(faults),
            remedy="correct each of them, or restore the file from the last commit",
        ) from error
    return snapshot


def no_catalog(folder: Path, name: str, evidence: str = "") -> SpecError:
    """Return the error of a spec that names a catalog which is not there."""
    names = snapshot_names(folder)
    guess = ""
    if close := nearest(name, names):
        guess = f"did you mean `{close}`? else "
    return SpecError(
        f"there is no catalog of {name!r}",
        evidence=evidence,
        cause=f"{folder} holds: {', '.join(names)}",
        remedy=f"{guess}name one of these in the spec; `{program_name()} "
        f"update {name} --url URL` makes that of an index",
    )


def index_address(folder: Path, index: str) -> str:
    """Return the URL of an index without validating the whole file, which takes long."""
    try:
        return str(read_parsed(fact(folder, f"{index}.json"), json.loads)["url"])
    except (OSError, ValueError, KeyError, TypeError):
        # Raises an error that names them.
        return load_snapshot(folder, index, Index).url


def render_snapshot(snapshot: Index | Channel | DriverSet | Interpreters) -> str:
    """Return the text of a snapshot's file: one line per fact, for readable diffs."""
    facts = snapshot.model_dump(mode="json", exclude={"schema_"}, exclude_defaults=True)
    document = {"$schema": snapshot.schema_, **facts}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
