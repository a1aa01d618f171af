"""Whether a build has nothing to do, found out with the standard library alone.

The models of the full path take longer to import than all of it to run. So a proven generation of a
target that is not legacy keeps, in ``up-to-date`` beside its record, one digest over all bytes that
the build read; while none differs, the full path is skipped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from provision import __version__
from provision.artifacts.pip_config import config_files
from provision.core.errors import SpecError, ToolError
from provision.core.filesystem import read_link, write_atomic
from provision.core.limits import read_if_any
from provision.core.prefix import drifted
from provision.core.project import CURRENT, PACKAGE, RECORD, Project, shipped

if TYPE_CHECKING:
    from provision.environment.manifest import Generation
    from provision.spec.model import Target

    Read = Callable[[Path], bytes | None]

_NOTE = "up-to-date"


class UpToDate(NamedTuple):
    """A build that had nothing to do; prints as a :class:`provision.commands.build.BuildResult`."""

    target: str
    generation: dict[str, Any]  # as a provision.environment.manifest.Generation prints
    plan: None = None
    verification: None = None
    report: None = None


def fingerprint(project: Project, target: str) -> str:
    """Return a digest of all that decides whether a build has nothing to do, but the generation."""
    # Take it before a build reads its files: an edit during the build then leads to the full path.
    pip_variables = sorted(
        item for item in os.environ.items() if item[0].startswith("PIP_")
    )
    machine = (
        ""  # which sys.version names on Windows; the module platform is slow to import
    )
    if sys.platform != "win32":
        machine = os.uname().machine
    facts = [__version__, sys.version, sys.platform, machine, target, pip_variables]
    total = hashlib.sha256(json.dumps(facts).encode())
    read = cache(read_if_any)  # each file once
    for path in _inputs(project, target, read):
        # The path and the length keep bytes from moving between two files unnoticed.
        content = read(path)
        size = "absent" if content is None else len(content)
        total.update(f"\0{path}\0{size}\0".encode(errors="surrogateescape"))
        total.update(content or b"")
    for entry in _toolkit(PACKAGE):
        total.update(entry.encode(errors="surrogateescape"))
    return total.hexdigest()


def _inputs(project: Project, target: str, read: Read) -> Iterator[Path]:
    """Yield the files that the full path may read, apart from the generation's own."""
    yield from _specs(project.specs / f"{target}.toml", read)
    yield from sorted(project.lock(target).glob("*"))
    for line in (read(project.lock(target) / "requirements.txt") or b"").splitlines()[
        :20
    ]:
        if line.startswith(
            b"# inputs: "
        ):  # requirement files, and the metadata of own packages
            yield from (project.root / name for name in line[10:].decode().split(", "))
    # Of the catalog all files: which of them count is written in the spec, and they are small.
    for catalog in dict.fromkeys((project.catalog, shipped().catalog)):
        yield from sorted(catalog.glob("*"))
    yield from config_files(os.environ)


def _specs(path: Path, read: Read) -> list[Path]:
    """Return a spec and all that it extends."""
    if b"extends" in (read(path) or b""):  # one that extends none is not parsed
        from provision.spec.extends import spec_chain  # noqa: PLC0415 - as above

        with contextlib.suppress(SpecError):  # the full path says what is wrong
            return [file.path for file in spec_chain(path)]
    return [path]


def _toolkit(folder: Path | str) -> Iterator[str]:
    """Yield each module of the toolkit with its size and time: a checkout keeps its version."""
    # Files are not read: git and installers change a file's time whenever they change its bytes.
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _toolkit(entry.path)
            else:
                found = entry.stat()
                yield f"\0{entry.path}\0{found.st_size}\0{found.st_mtime_ns}"


def recall(project: Project, target: str, before: str) -> UpToDate | None:
    """Return the current generation if an earlier build noted this very state; None otherwise."""
    folder = read_link(project.environments(target) / CURRENT)
    if folder is None:
        return None
    record, note = read_if_any(folder / RECORD), read_if_any(folder / _NOTE)
    if record is None or note != _note(before, record):
        return None
    known: dict[str, Any] = json.loads(record)
    if drifted(folder, known.get("path", ""), known["distributions"]):
        return None
    return UpToDate(target, {"folder": folder, "record": known})


def remember(generation: Generation, target: Target, before: str) -> None:
    """Note that a build of this state has nothing to do, where that is certain."""
    content = read_if_any(generation.folder / RECORD)
    if (
        generation.record.proof != "proven"
        or target.status == "legacy"
        or content is None
    ):
        return
    # Not equal where another process replaced the record, or an older version wrote fewer fields.
    if json.loads(content) != generation.record.model_dump(mode="json"):
        return
    # The note only saves time, so a folder that cannot be written is no error.
    with contextlib.suppress(ToolError):
        write_atomic(generation.folder / _NOTE, _note(before, content).decode())


def _note(before: str, record: bytes) -> bytes:
    return hashlib.sha256(before.encode() + record).hexdigest().encode()
