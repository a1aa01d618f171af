"""The order in which the generations of a target were in use, for the way back.

The folder's lock must be held. Killed between the link and the note, a run leaves the link, which
decides: what it names is the last one in the order.
"""

import itertools
from pathlib import Path

from provision.core.filesystem import read_link, swap_link, write_atomic
from provision.core.limits import read_if_any
from provision.core.project import CURRENT
from provision.environment.manifest import Generation, finished_generations

_FILE = ".used"  # beside the generations: the name of each that came into use, a line
_MOST = 100


def use(folder: Path) -> None:
    """Make a generation current, as the next one in the order of use."""
    home = folder.parent
    names = _noted(home)
    swap_link(home / CURRENT, folder)
    _note(home, [*names, folder.name])


def go_back(folder: Path) -> None:
    """Make a generation current that was in use before; what came after it is forgotten."""
    home = folder.parent
    names = _noted(home)
    while names and names[-1] != folder.name:
        names.pop()
    # First, unlike above: killed before the swap, nothing but the current one comes after it.
    _note(home, names or [folder.name])
    swap_link(home / CURRENT, folder)


def last_used(home: Path) -> list[Generation]:
    """Return the finished generations as they were in use, the last first; some repeat."""
    by_name = {one.folder.name: one for one in finished_generations(home)}
    return [by_name[name] for name in reversed(_noted(home)) if name in by_name]


def before_notes(home: Path) -> list[Generation]:
    """Return what was built before anything was noted, as by earlier versions; newest first."""
    noted = last_used(home)
    built = finished_generations(home)
    return built[built.index(noted[-1]) + 1 :] if noted else built


def forget_removed(home: Path) -> None:
    """Leave out what is gone: a later build of the same lock has the same name."""
    names = [name for name in _noted(home) if (home / name).is_dir()]
    _note(home, names)


def _noted(home: Path) -> list[str]:
    content = read_if_any(home / _FILE) or b""
    names = content.decode(errors="replace").split()
    now = read_link(home / CURRENT)
    if now and names[-1:] != [now.name]:
        names.append(now.name)
    return names


def _note(home: Path, names: list[str]) -> None:
    lines = [f"{name}\n" for name, _ in itertools.groupby(names)]
    if not lines:
        (home / _FILE).unlink(missing_ok=True)
        return
    write_atomic(home / _FILE, "".join(lines[-_MOST:]))
