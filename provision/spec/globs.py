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
    repository = repository_of(root)
    folders = {root.resolve()}
    for part in path.parts:
        matching = _all_below(folders) if part == "**" else _matching(folders, part)
        folders = {folder for folder in matching if folder.is_relative_to(repository)}
    if len(folders) > INCLUDED:
        raise ValueError(
            f"the pattern {pattern!r} matches more than {INCLUDED} folders; write a narrower one"
        )
    return folders


def _matching(folders: Iterable[Path], name: str) -> set[Path]:
    # A set, not a list: links that lead back would double it at each part.
    matching = set()
    for folder in folders:
        for inner in _folders_in(folder):
            if fnmatch(inner.name, name):
                matching.add(inner.resolve())
    return matching


def _all_below(folders: Iterable[Path]) -> set[Path]:
    below = set()
    waiting = list(folders)
    while waiting:
        folder = waiting.pop()
        if folder not in below:
            below.add(folder)
            for inner in _folders_in(folder):
                if not inner.is_symlink():
                    waiting.append(inner)
    return below


def _folders_in(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):  # of another user, or removed meanwhile
        return list(filter(Path.is_dir, folder.iterdir()))
    return []
