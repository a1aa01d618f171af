"""Folders that match the patterns of a file: only inside its repository, and each read once."""

import contextlib
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from provision.core.limits import INCLUDED, NESTED, repository_of


def folders_of(pattern: str, root: Path) -> set[Path]:
    """Return the folders below a root that a pattern of ``*``, ``?``, ``[]`` and ``**`` matches.

    Links outside the repository match nothing. ValueError for ``..``, for an absolute path, for a
    pattern that is too deep, and for one that matches too much.
    """
    path = Path(pattern)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(
            f"the pattern {pattern!r} leads outside; write one below this folder, without `..`"
        )
    if len(path.parts) > NESTED:
        raise ValueError(f"a pattern has more than {NESTED} parts; write a shorter one")
    top, found = repository_of(root), {root.resolve()}
    for part in path.parts:
        found = _all_below(found) if part == "**" else _matching(found, part)
        found = {each for each in found if each.is_relative_to(top)}
    if len(found) > INCLUDED:
        raise ValueError(
            f"the pattern {pattern!r} matches more than {INCLUDED} folders; write a narrower one"
        )
    return found


def _matching(folders: Iterable[Path], name: str) -> set[Path]:
    # A set, not a list: links that lead back would double it at each part.
    return {
        each.resolve()
        for folder in folders
        for each in _folders_in(folder)
        if fnmatch(each.name, name)
    }


def _all_below(folders: Iterable[Path]) -> set[Path]:
    found = set[Path]()
    waiting = list(folders)
    while waiting:
        folder = waiting.pop()
        if folder not in found:
            found.add(folder)
            waiting += [each for each in _folders_in(folder) if not each.is_symlink()]
    return found


def _folders_in(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):  # of another user, or removed meanwhile
        return [each for each in folder.iterdir() if each.is_dir()]
    return []
