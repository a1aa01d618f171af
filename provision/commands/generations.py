"""The verbs ``rollback`` and ``clean``: previous generations, used again or removed."""

from dataclasses import dataclass

from provision.commands.current import require_current
from provision.core.errors import UsageError
from provision.core.filesystem import is_tagged, read_link
from provision.core.in_use import remove_unused
from provision.core.locking import folder_lock, waiting
from provision.core.progress import Progress
from provision.core.project import CURRENT, Project
from provision.environment.manifest import Generation, finished_generations, sweep
from provision.environment.seal import drop_seals
from provision.environment.uses import before_notes, forget_removed, go_back, last_used
from provision.spec.reader import target_names


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
    """Make the generation that was in use before current again; UsageError if there is none."""
    home = project.environments(target)
    now = require_current(project, target)
    with folder_lock(home, waiting(target, progress)):
        earlier = [*last_used(home), *before_notes(home)]
        older = [one for one in earlier if one != now and not one.misplaced()]
        if not older:
            raise UsageError(
                f"{target} has no earlier generation",
                cause=f"none that runs here was in use before {now.folder.name}",
                remedy=f"check out the lock you want, then `provision build {target}`",
            )
        go_back(older[0].folder)
    return RolledBack(target, now.folder.name, older[0])


def abandoned(project: Project) -> list[str]:
    """Return the names in ``.envs`` that no spec has, and below which generations lie."""
    names = []
    for home in (project.root / ".envs").glob("*"):
        if any(map(is_tagged, home.glob("*"))):
            names.append(home.name)
    return sorted(set(names) - set(target_names(project.specs)))


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
        users: dict[str, str] = {}
        try:
            for generation in chosen:
                link = home / CURRENT if generation.folder == now else None
                users[generation.folder.name] = remove_unused(generation.folder, link)
        except KeyboardInterrupt:
            gone = [g.folder.name for g in chosen if not g.folder.exists()]
            progress.note(f"{target}: removed {', '.join(gone) or 'nothing'}")
            raise
        drop_seals(home)
        forget_removed(home)
    removed = [g for g in chosen if not users[g.folder.name]]
    kept = [g for g in generations if g not in removed]
    in_use = tuple((name, user) for name, user in users.items() if user)
    known = target in target_names(project.specs)
    return Cleaned(target, _sized(removed), _sized(kept), in_use, abandoned=not known)


def _sized(generations: list[Generation]) -> tuple[tuple[str, int], ...]:
    return tuple((g.folder.name, g.record.size) for g in generations)
