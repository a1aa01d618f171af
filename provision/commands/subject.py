"""What the checks are run in: an environment of ours, or somebody else's."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from provision.core.errors import ToolError, UsageError
from provision.core.process import Run, environment_python
from provision.core.progress import Progress
from provision.doctor.sites import locate, prefix_of
from provision.environment.manifest import Generation
from provision.lockfile.pip import Lock

_LIST = (
    "import importlib.metadata as m, json, sys; "
    "found = {d.metadata['Name']: d.version for d in m.distributions()}; "
    "print(json.dumps(['{}.{}'.format(*sys.version_info), found]))"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """An environment to be checked."""

    prefix: Path  # its folder, for variables that name it
    python: Path  # its interpreter
    versions: dict[str, str]  # what must be installed in it, by normalised name
    lock: str | None  # digest of its lock; None for somebody else's environment
    tree: str = ""  # digest of its files, as the record of a finished generation has it
    minor: str = ""  # version of its Python; "" for that of the target


def from_generation(prefix: Path, lock: Lock) -> Subject:
    """Return an environment that Provision built, which must be what is locked."""
    return Subject(prefix, environment_python(prefix), lock.versions, lock.digest)


def from_current(current: Generation, lock: Lock, progress: Progress) -> Subject:
    """Return the generation in use, which may be of an older lock."""
    tree = current.record.tree
    if current.record.lock == lock.digest:
        return replace(from_generation(current.folder, lock), tree=tree)
    # After `rollback`, or before a build of what was locked since: it is what is in use.
    progress.note(
        f"{lock.folder.name} was built from an older lock; it is checked as it was built"
    )
    record = current.record
    python = environment_python(current.folder)
    return Subject(current.folder, python, record.versions, record.lock, tree)


def from_interpreter(python: Path, run: Run) -> Subject:
    """Return somebody else's environment, which a path or a command names, taken as it is."""
    place = locate(str(python), run)
    if place.is_dir():
        place = environment_python(prefix_of(place))
    try:
        listed = run([place, "-I", "-c", _LIST], timeout=60).require("it does not run")
        minor, named = json.loads(listed.stdout)
    except (ToolError, ValueError) as error:
        raise UsageError(
            f"{place} is no Python that runs",
            evidence=str(getattr(error, "evidence", "") or error),
            remedy="name the interpreter itself, such as venv/bin/python",
        ) from error
    versions = {}
    for name, version in named.items():
        if name:
            versions[str(canonicalize_name(name))] = version
    place = place.absolute()
    return Subject(place.parent.parent, place, versions, None, minor=minor)
