"""The build manifest, ``provision.json``, written last: without it a build is unfinished."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.utils import canonicalize_name
from pydantic import ValidationError

from provision.core.errors import SpecError
from provision.core.filesystem import is_tagged, read_link, write_atomic
from provision.core.in_use import remove_unused
from provision.core.limits import read_bytes
from provision.core.prefix import misplaced
from provision.core.project import CURRENT, RECORD
from provision.core.temporary import remove_litter
from provision.core.text import json_text
from provision.environment.seal import (
    Seal,
    changing_seal,
    drop_seals,
    read_seal,
    write_seal,
)
from provision.environment.stamp import stamp
from provision.spec.tables import Table, faults_of

# The quick checks passed; the device is not on this machine; the build ran with --no-smoke.
Proof = Literal["proven", "unproven", "skipped"]


class Interpreter(Table):
    """The interpreter that an environment runs."""

    source: Literal["uv", "system", "conda"]
    """uv: a managed build; conda: the layer of the lock."""
    path: str
    """Path of its program, without links."""
    version: str
    """Full version."""
    sha256: str
    """SHA-256 of its program."""
    stdlib: str
    """Digest of its standard library and shared library, without bytecode."""


class Record(Table):
    """What a generation was built from, and what its verification found."""

    schema_version: Literal[1] = 1
    """Version of the format of provision.json."""
    target: str
    """Name of the target."""
    lock: str
    """Its digest, SHA-256."""
    spec: str
    """Digest of the part of the spec that determines the lock."""
    local: tuple[str, ...] | None = None
    """Names of own packages, whose files `tree` leaves out; null where an earlier version built it."""
    python: str
    """Full version."""
    interpreter: Interpreter | None = None
    """null where an earlier version built it."""
    tools: dict[str, str]
    """Their versions."""
    distributions: tuple[str, ...]
    """Names of the .dist-info folders, sorted."""
    tree: str
    """Digest over the paths and hashes of all files."""
    files: int
    """How many files."""
    size: int
    """Bytes on disk."""
    proof: Proof
    """`proven`: the quick checks passed; `unproven`: the device is not on this machine; `skipped`:
    built with `--no-smoke`.
    """
    reason: str = ""
    """Why it is not proven; empty where it is."""
    built: str
    """When, ISO 8601, UTC."""
    path: str = ""
    """Where it was built, as its scripts name it; empty by earlier versions."""
    number: int = 0
    """More than that of any generation before it; 0 by earlier versions."""

    @property
    def versions(self) -> dict[str, str]:
        """The version of each distribution, by its normalised name."""
        versions = {}
        for folder in self.distributions:
            name, _, version = folder.removesuffix(".dist-info").rpartition("-")
            versions[str(canonicalize_name(name))] = version
        return versions


@dataclass(frozen=True, slots=True)
class Generation:
    """One finished environment."""

    folder: Path
    """Path of the environment."""
    record: Record
    """What it was built from: its provision.json."""

    def misplaced(self) -> str:
        """Return why its programs cannot start where it is now; empty if they can."""
        return misplaced(self.folder, self.record.path)

    def drifted(self) -> bool:
        """Whether it is not as its build left it, by size, time and inode of each file."""
        seal = read_seal(self.folder)
        if self.misplaced() or not seal or not seal.has_manifest(self.folder):
            return True
        return seal.stamp != stamp(self.folder)


def write_record(folder: Path, record: Record, seal: Seal | None = None) -> Generation:
    """Write the record, which marks a generation as finished, and its digest into the seal."""
    text = json_text(record.model_dump(mode="json"), indent=2)
    with changing_seal(folder):
        if seal := seal or read_seal(folder):
            write_seal(folder, seal, text)  # first: a finished generation has a seal
        write_atomic(folder / RECORD, text)
    return Generation(folder, record)


def mark_proof(generation: Generation, proof: Proof, reason: str) -> Generation:
    """Record whether a generation is proven, unless its record says so already."""
    record = generation.record.model_copy(update={"proof": proof, "reason": reason})
    if record == generation.record:
        return generation
    return write_record(generation.folder, record)


def read_generation(folder: Path) -> Generation | None:
    """Return the generation in a folder, None if it is unfinished; SpecError if it is damaged."""
    path = folder / RECORD
    try:
        return Generation(folder, Record.model_validate_json(read_bytes(path)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        raise SpecError(
            f"cannot read {path}",
            evidence="\n".join(faults_of(error, Record)),
            cause="it was edited, or written by another version of Provision",
            remedy="remove its folder and build again",
        ) from error


def current_generation(environments: Path) -> Generation | None:
    """Return the generation in use below a target's folder, or None."""
    folder = read_link(environments / CURRENT)
    return read_generation(folder) if folder else None


def finished_generations(environments: Path) -> list[Generation]:
    """Return the finished generations below a target's folder, newest first."""
    generations = []
    for folder in filter(is_tagged, environments.iterdir()):
        if generation := read_generation(folder):
            generations.append(generation)
    # By the number: clocks can be wrong. Records of earlier versions have none.
    generations.sort(key=lambda one: (one.record.number, one.record.built))
    generations.reverse()
    return generations


def next_number(environments: Path) -> int:
    """Return the number of a generation that is made now."""
    last = 0
    for folder in filter(is_tagged, environments.iterdir()):
        with contextlib.suppress(SpecError):  # of a damaged one, nobody knows it
            generation = read_generation(folder)
            if generation:
                last = max(last, generation.record.number)
    return last + 1


def unfinished_generations(environments: Path) -> list[Path]:
    """Return the folders of builds that ended before they wrote a record."""
    # Other folders beside the generations, such as the reports, have no tag.
    tagged = filter(is_tagged, sorted(environments.iterdir()))
    return [folder for folder in tagged if not (folder / RECORD).is_file()]


def sweep(environments: Path, note: Callable[[str], None]) -> None:
    """Remove what killed runs left below a target's folder, seals too; its lock must be held."""
    for folder in unfinished_generations(environments):
        if user := remove_unused(folder):
            note(kept_in_use(folder, user))
    for folder in (environments, *environments.iterdir()):
        remove_litter(folder)
    drop_seals(environments)


def kept_in_use(folder: Path, user: str) -> str:
    """Return the message that a folder was kept."""
    return (
        f"kept {folder.name}, in use by {user}; the next `provision clean` removes it"
    )
