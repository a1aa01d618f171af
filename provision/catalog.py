"""Committed snapshots of facts that change outside: the files of each vendor's wheel index.

``envs/catalog/<index>.json`` tells for each wheel what its index and its metadata tell, and where
that was seen. ``provision update`` is the only thing that changes them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from pydantic import AfterValidator, Field, ValidationError

from provision.errors import SpecError
from provision.spec import Specifier, Table, faults_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# What of a wheel's entry can change a lock; provenance can not.
_DECIDING = ("filename", "sha256", "size", "requires_python", "requires_dist")


def _wheel(filename: str) -> str:
    try:
        parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise ValueError(f"{filename!r} is no name of a wheel: {error}") from error
    return filename


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is no requirement (PEP 508): {error}") from error
    return text


def _open_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError(f"{parts.scheme or 'this'} is no web address")
    if parts.username or parts.password:
        raise ValueError("holds a user name or password, which a committed file must not")
    return url


Url = Annotated[str, AfterValidator(_open_url)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Wheel(Table):
    """One file of an index."""

    filename: Annotated[str, AfterValidator(_wheel)]
    url: Url
    sha256: Annotated[
        Sha256 | None,
        Field(description="Absent where the index publishes none and nobody hashed the file yet."),
    ] = None
    size: Annotated[int | None, Field(gt=0, description="Bytes.")] = None
    requires_python: Specifier | None = None
    requires_dist: Annotated[
        tuple[Annotated[str, AfterValidator(_requirement)], ...] | None,
        Field(description="Requires-Dist of its metadata; absent where it was never seen."),
    ] = None
    basis: Annotated[str | None, Field(description="What requires_dist was taken from.")] = None
    confirmed: Annotated[
        bool, Field(description="Two independent public sources, or a hashed download, agree.")
    ] = False
    sources: Annotated[
        tuple[str, ...], Field(description="Public files in which the hash was seen.")
    ] = ()
    replaced: Annotated[
        tuple[Sha256, ...],
        Field(description="Hashes of other files that the vendor served under this very name."),
    ] = ()
    note: str | None = None

    @property
    def name(self) -> str:
        """The distribution, normalised."""
        return str(parse_wheel_filename(self.filename)[0])

    @property
    def version(self) -> str:
        """The version with its local part."""
        return str(parse_wheel_filename(self.filename)[1])

    @property
    def lockable(self) -> bool:
        """Whether enough is known to lock it: its hash, and what it needs."""
        return self.sha256 is not None and self.requires_dist is not None


class Index(Table):
    """A vendor's wheel index."""

    schema_: Annotated[str, Field(alias="$schema")] = "index.schema.json"
    url: Url
    files: tuple[Wheel, ...]

    def of(self, name: str) -> tuple[Wheel, ...]:
        """Return the files of one distribution."""
        return tuple(wheel for wheel in self.files if wheel.name == name)


def load(folder: Path, index: str) -> Index:
    """Read the snapshot of one index.

    Raises:
        SpecError: There is none, or it has faults; all of them are told.
    """
    path = folder / f"{index}.json"
    try:
        return Index.model_validate_json(path.read_bytes())
    except OSError as error:
        known = sorted(p.stem for p in folder.glob("*.json") if "." not in p.stem)
        raise SpecError(
            f"there is no catalog of the index {index!r}",
            evidence=str(error),
            cause=f"{folder} holds: {', '.join(known)}",
            remedy="name one of these in [pip.index]",
        ) from error
    except ValidationError as error:
        faults = faults_of(error)
        raise SpecError(
            f"{path} has {len(faults)} fault{'s'[: len(faults) > 1]}",
            evidence="\n".join(faults),
            remedy="mend each of them, or take the file back from the last commit",
        ) from error


def address(folder: Path, index: str) -> str:
    """Return the URL of an index; like :func:`digest` it does not validate the whole file."""
    try:
        return str(json.loads((folder / f"{index}.json").read_bytes())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return load(folder, index).url  # tells what is wrong with it


def schema() -> dict[str, Any]:
    """Return the JSON Schema of an index file (draft 2020-12)."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Index.model_json_schema()


def digest(folder: Path, assigned: Mapping[str, Sequence[str]]) -> str:
    """Return the SHA-256 of the part of the catalog that decides a target's lock.

    It is on the path of every build that has nothing to do, so the files are not validated here.

    Args:
        folder: The catalog.
        assigned: Index -> names of the distributions that come from it.

    Raises:
        SpecError: A snapshot is missing or is no JSON.
    """
    part = {index: _deciding(folder, index, set(names)) for index, names in assigned.items()}
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()


def _deciding(folder: Path, index: str, names: set[str]) -> list[dict[str, Any]]:
    try:
        files = json.loads((folder / f"{index}.json").read_bytes())["files"]
        return [
            {key: file.get(key) for key in _DECIDING}
            for file in sorted(files, key=lambda file: str(file["filename"]))
            if canonicalize_name(file["filename"].partition("-")[0]) in names
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        load(folder, index)  # tells what is wrong with it
        raise
