"""The verbs ``rollback`` and ``clean``: previous generations, used again or removed."""

from dataclasses import dataclass
from pathlib import Path

from provision.commands.current import require_current
from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.filesystem import is_tagged, read_link
from provision.core.in_use import remove_unused
from provision.core.locking import folder_lock, waiting
from provision.core.prefix import site_packages
from provision.core.progress import Progress
from provision.core.project import CURRENT, Project
from provision.environment.contents import read_contents
from provision.environment.files import unrecorded_findings
from provision.environment.interpreter import interpreter_findings
from provision.environment.manifest import (
    Generation,
    finished_generations,
    kept_in_use,
    sweep,
)
from provision.environment.seal import (
    drop_seals,
    read_seal,
    restamp,
    seal_findings,
)
from provision.environment.stamp import stamp
from provision.environment.uses import before_notes, forget_removed, go_back, last_used
from provision.environment.verify import tree_of
from provision.lockfile.pip import Lock, read_lock
from provision.spec.reader import target_names

EDITED = "its files were edited after the build"
REPLACED = "its interpreter was replaced after the build"
UNKNOWN = "it cannot be compared: the version that built it noted no own packages"


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The generation that was current, and the one that is current now."""

    target: str
    """Name of the target."""
    before: str
    """Name of the generation that was current."""
    now: Generation
    """The generation that is current now."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The removed and the kept generations, each with its size in bytes, shared files included."""

    target: str
    """Name of the target."""
    removed: tuple[tuple[str, int], ...]
    """Name and size in bytes of each generation that was removed."""
    kept: tuple[tuple[str, int], ...]
    """Name and size in bytes of each generation that stays."""
    in_use: tuple[tuple[str, str], ...] = ()
    """Name of each generation that was kept for a program, and the program."""
    abandoned: bool = False
    """Whether the target has no spec any more; `--all` removes what is kept of it."""


def rollback(project: Project, target: str, progress: Progress) -> RolledBack:
    """Make the generation that was in use before current again; UsageError if there is none.

    One that differs from its build, or cannot be compared with it, is left out.
    """
    home = project.environments(target)
    current = require_current(project, target)
    with folder_lock(home, waiting(target, progress)):
        earlier = [*last_used(home), *before_notes(home)]
        older = {g.folder: g for g in earlier if g != current}
        for generation in older.values():
            if generation.misplaced():
                continue
            why = compare_drifted(generation, project, target, progress)
            if not why:
                go_back(generation.folder)
                return RolledBack(target, current.folder.name, generation)
            progress.note(f"{generation.folder.name} is left out: {why}")
    raise UsageError(
        f"{target} has no earlier generation",
        cause=f"none that runs here was in use before {current.folder.name}",
        remedy=f"check out the lock you want, then `provision build {target}`",
    )


def compare_drifted(
    generation: Generation, project: Project, target: str, progress: Progress
) -> str:
    """Compare a generation with its build by every hash, if its stamp is another.

    Return how it differs; empty if it does not, and then it is stamped again.
    """
    if not generation.drifted():
        return ""
    progress.step(f"comparing every file of {generation.folder.name} with its hash")
    try:
        lock = read_lock(project.lock(target))
    except SpecError:  # it may be gone, and only records of earlier versions need it
        lock = None
    as_left = stamp(generation.folder)
    difference = difference_of(generation, lock)
    if not difference:
        try:
            restamp(generation.folder, as_left)
        except ToolError as error:  # without a stamp it is compared again next time
            progress.note(f"{error.what}: {error.evidence}")
    return difference


def difference_of(generation: Generation, lock: Lock | None) -> str:
    """Return how a generation differs from its build, by hash; own packages may differ.

    ``lock``: the current one, for records of earlier versions, which do not name own packages.
    """
    record = generation.record
    if site_packages(generation.folder) is None:
        return EDITED
    contents = read_contents(generation.folder, record.target)
    changed = [
        *seal_findings(generation.folder, read_seal(generation.folder)),
        *unrecorded_findings(contents),
    ]
    if changed:
        return EDITED
    local, why = record.local, EDITED
    if local is None:
        local = tuple(lock.local) if lock else ()
        if lock is None or lock.digest != record.lock:
            why = UNKNOWN
    # Which lock it is of does not matter to the digest of its files.
    if tree_of(contents, local) != record.tree:
        return why
    if any(interpreter_findings(generation.folder, record.interpreter)):
        return REPLACED
    return ""


def abandoned(project: Project) -> list[str]:
    """Return the names in ``.envs`` that no spec has, and below which generations are."""
    names = set()
    for home in (project.root / ".envs").glob("*"):
        if any(map(is_tagged, home.glob("*"))):
            names.add(home.name)
    return sorted(names.difference(target_names(project.specs)))


def clean(
    project: Project, target: str, progress: Progress, *, keep: int, everything: bool
) -> Cleaned:
    """Remove generations that no program uses; the current one and ``keep`` more stay, or none."""
    # Reports are kept: they are this host's baseline. Folders without our tag are never touched.
    home = project.environments(target)
    if not home.is_dir():
        return Cleaned(target, (), ())
    with folder_lock(home, waiting(target, progress)):
        sweep(home, progress.note)
        now = read_link(home / CURRENT)
        generations = finished_generations(home)
        # What `rollback` goes back to is kept first, then what was built last.
        by_folder = {g.folder: g for g in (*last_used(home), *generations)}
        others = [g for folder, g in by_folder.items() if folder != now]
        chosen = generations if everything else others[keep:]
        removed = []
        in_use = []
        try:
            for generation in chosen:
                link = home / CURRENT if generation.folder == now else None
                user = remove_unused(generation.folder, link)
                if user:
                    in_use.append((generation.folder.name, user))
                else:
                    removed.append(generation)
        except KeyboardInterrupt:
            gone = [g.folder.name for g in chosen if not g.folder.exists()]
            progress.note(f"{target}: removed {', '.join(gone) or 'nothing'}")
            raise
        drop_seals(home)
        forget_removed(home)
    kept = [g for g in generations if g not in removed]
    is_known = target in target_names(project.specs)
    return Cleaned(
        target, _sized(removed), _sized(kept), tuple(in_use), abandoned=not is_known
    )


def remove_beside(home: Path, reason: str, progress: Progress) -> None:
    """Remove the generations whose record has a reason and that never were in use."""
    with folder_lock(home, waiting(home.name, progress)):
        used = {generation.folder for generation in last_used(home)}
        for generation in finished_generations(home):
            folder = generation.folder
            if generation.record.reason != reason or folder in used:
                continue
            user = remove_unused(folder)
            if user:
                progress.note(kept_in_use(folder, user))
        drop_seals(home)


def _sized(generations: list[Generation]) -> tuple[tuple[str, int], ...]:
    return tuple((g.folder.name, g.record.size) for g in generations)
