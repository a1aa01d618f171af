"""The verb ``init``: make a project of a repository, or of an empty folder; asks nothing."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomlkit

from provision.catalog.digest import catalog_digest
from provision.commands.fit import Fitter
from provision.commands.repository import Asked, read_repository
from provision.core.errors import SpecError, UsageError
from provision.core.filesystem import write_atomic
from provision.core.project import Project, shipped
from provision.spec.model import Target
from provision.spec.reader import load_spec, load_target

_IGNORED = ("/.envs/", "/.tools/", "/.cache/")
_NOXFILE = """\
from provision.sessions import add_sessions  # `nox -l` lists them

add_sessions(__file__)
"""


@dataclass(frozen=True, slots=True)
class InitializedTarget:
    """What was done for one target."""

    name: str
    """Name of the target."""
    spec: str | None
    """The file; null where it existed, and was left as it is."""
    done: tuple[str, ...] = ()
    """Versions that were changed to fit the target, each with its place."""
    left: tuple[str, ...] = ()
    """Requirements that are left out, each with its place and why."""
    locked: bool = False
    """Whether the shipped lock serves, since nothing was added."""


@dataclass(frozen=True, slots=True)
class Initialized:
    """A project that was made, or completed."""

    root: Path
    """Path of the project."""
    targets: tuple[InitializedTarget, ...]
    """What was done for each target."""
    written: tuple[str, ...]
    """Files that were written or got lines."""
    left: tuple[str, ...]
    """What has to be done by hand, each with its place."""
    empty: bool
    """The repository asks for something, and the specs have none of it."""


def initialize(project: Project, names: Sequence[str]) -> Initialized:
    """Make a project with a spec for each target; no file of the user's is overwritten."""
    if project == shipped():
        raise UsageError(
            "this is the toolkit's own folder, which has every target",
            remedy="change into your repository, or name it with --project",
        )
    for name in names:
        load_target(shipped().specs, name)  # before anything is written
    asked = read_repository(project.root)
    targets = tuple(_target(project, name, asked) for name in dict.fromkeys(names))
    written, left = [target.spec for target in targets if target.spec], list(asked.left)
    if _ignore(project.root / ".gitignore"):
        written.append(".gitignore")
    noxfile = project.root / "noxfile.py"
    if not noxfile.exists():
        write_atomic(noxfile, _NOXFILE)
        written.append(noxfile.name)
    elif "add_sessions" not in noxfile.read_text(encoding="utf-8", errors="replace"):
        lines = "; ".join(line for line in _NOXFILE.splitlines() if line)
        left.append(
            f"noxfile.py: exists; add these lines to it for the sessions: {lines}"
        )
    empty = bool(asked.left) and not (asked.files or asked.requirements or asked.local)
    return Initialized(project.root, targets, tuple(written), tuple(left), empty)


def _target(project: Project, name: str, asked: Asked) -> InitializedTarget:
    path = project.specs / f"{name}.toml"
    if path.exists():
        return InitializedTarget(name, None)
    base = load_target(shipped().specs, name)
    fitted = Fitter(base, project.catalog, asked.requires_python)
    fitted.fit(asked.lines, asked.requirements)
    write_atomic(path, _spec(base, asked, fitted))
    place = path.relative_to(project.root).as_posix()
    try:
        locked = _take_lock(project, base, load_spec(path))
    except SpecError as error:  # such as a password in the URL of a requirement
        fitted.left.append(
            f"{place} has to be corrected: {error.evidence or error.what}"
        )
        locked = False
    return InitializedTarget(
        name, place, tuple(fitted.done), tuple(fitted.left), locked
    )


def _take_lock(project: Project, base: Target, target: Target) -> bool:
    """Copy the shipped lock where it is the lock of a new spec too; whether that was so."""
    lock, own = shipped().lock(base.name), project.lock(base.name)
    catalogs = (
        catalog_digest(project.catalog, target),
        catalog_digest(shipped().catalog, base),
    )
    same = target.digest() == base.digest() and len({*catalogs}) == 1
    if same and lock.is_dir() and not own.exists():
        shutil.copytree(lock, own)
        return True
    return False


def _spec(base: Target, asked: Asked, fitted: Fitter) -> str:
    document = tomlkit.document()
    document["extends"] = base.name
    if fitted.target.python != base.python:
        document["python"] = fitted.target.python
    pip = tomlkit.table()
    lists = {
        "files": asked.files,
        "local": asked.local,
        "requirements": fitted.requirements,
        "exclude": fitted.exclude,
    }
    for key, values in lists.items():
        if values:
            pip[key] = tomlkit.array().multiline(len(values) > 3)
            pip[key].extend(dict.fromkeys(values))
    if fitted.overrides:
        pip["overrides"] = tomlkit.array().multiline(multiline=True)
        for text, reason in fitted.overrides.items():
            pip["overrides"].append({"requirement": text, "reason": reason})
    if fitted.index:
        pip["index"] = fitted.index
        pip["index"].comment("from torch's index, also if only others require them")
    if pip:
        document["pip"] = pip
    return tomlkit.dumps(document)


def _ignore(path: Path) -> bool:
    """Add what the toolkit makes to a ``.gitignore``; whether anything was added."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    known = {line.strip().strip("/") for line in text.splitlines()}
    missing = [line for line in _IGNORED if line.strip("/") not in known]
    if missing:
        with path.open(
            "a", encoding="utf-8"
        ) as stream:  # which keeps the bytes that are there
            stream.write("" if not text or text.endswith("\n") else "\n")
            stream.writelines(f"{line}\n" for line in missing)
    return bool(missing)
