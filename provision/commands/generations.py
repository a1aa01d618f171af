"""The verbs ``rollback`` and ``clean``: previous generations, used again or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.core.errors import UsageError
from provision.core.filesystem import is_tagged, read_link, remove_link, remove_tagged, swap_link
from provision.core.locking import folder_lock
from provision.core.project import CURRENT
from provision.environment.manifest import (
    current_generation,
    read_generation,
    unfinished_generations,
)

if TYPE_CHECKING:
    from pathlib import Path

    from provision.core.project import Project
    from provision.environment.manifest import Generation


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The generation that was current, and the one that is current now."""

    target: str
    before: str
    now: Generation


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The removed and the kept generations, each with its size in bytes.

    Files that several generations share through hard links are counted in each of them.
    """

    target: str
    removed: tuple[tuple[str, int], ...]
    kept: tuple[tuple[str, int], ...]


def rollback(project: Project, target: str) -> RolledBack:
    """Make the newest generation before the current one current.

    Raises:
        UsageError: There is none.
    """
    home = project.environments(target)
    now = _current(home, target)
    with folder_lock(home, lambda: None):
        older = [g for g in finished(home) if g.record.built < now.record.built]
        if not older:
            raise UsageError(
                f"{target} has no earlier generation",
                cause=f"{now.folder.name} is the oldest one",
                remedy=f"check out the lock you want, then `provision build {target}`",
            )
        swap_link(home / CURRENT, older[0].folder)
    return RolledBack(target, now.folder.name, older[0])


def clean(project: Project, target: str, *, keep: int, everything: bool) -> Cleaned:
    """Remove generations; folders without the toolkit's tag are never touched.

    Args:
        project: The project.
        target: Its name.
        keep: How many generations besides the current one stay, newest first.
        everything: Remove the current one too. Reports are kept: they are this host's baseline.
    """
    home = project.environments(target)
    if not home.is_dir():
        return Cleaned(target, (), ())
    with folder_lock(home, lambda: None):
        from provision.environment.seal import drop_seals  # noqa: PLC0415 - not for rollback

        now = read_link(home / CURRENT)
        generations = finished(home)
        others = [g for g in generations if g.folder != now]
        removed = generations if everything else others[keep:]
        if everything:
            remove_link(home / CURRENT)
        for folder in [*unfinished_generations(home), *(g.folder for g in removed)]:
            remove_tagged(folder)
        drop_seals(home)
    return Cleaned(target, _sized(removed), _sized([g for g in generations if g not in removed]))


def finished(home: Path) -> list[Generation]:
    """Return the finished generations below a target's folder, newest first."""
    found = [read_generation(folder) for folder in home.iterdir() if is_tagged(folder)]
    return sorted((g for g in found if g), key=lambda g: g.record.built, reverse=True)


def _current(home: Path, target: str) -> Generation:
    now = current_generation(home)
    if now is None:
        raise UsageError(f"{target} is not built", remedy=f"`provision build {target}`")
    return now


def _sized(generations: list[Generation]) -> tuple[tuple[str, int], ...]:
    return tuple((g.folder.name, g.record.size) for g in generations)
