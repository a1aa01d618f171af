"""Whose files are trusted, after ``safe.directory`` of git; Windows has no such check."""

import contextlib
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from provision.core.errors import UsageError
from provision.core.program import naming
from provision.core.project import Project

_LOCKS = ("/.lock", "/edit.lock")  # which all who share an environment take
# /proc/sys/kernel/overflowuid: an owner outside of this user namespace.
_UNMAPPED = 65534


def require_own_project(project: Project, target: str | None) -> None:
    """Stop if a project that was found, not named, has a part of another user."""
    # Every part counts, because in a folder such as ``/tmp`` anybody can add one. Permissions count
    # for root only: an owner who lets a group write trusts it, and some file systems show all files
    # as writable.
    root = project.root
    home = project.environments(target or "")
    lock = project.lock(target or "")
    parts = [
        root,
        project.specs,
        project.catalog,
        project.smoke,
        root / "lockfiles",
        lock,
        root / ".envs",
        root / ".cache",
        home,
        home / "current",
    ]
    trust = f"if you trust its owner, name the project: {naming(root)}"
    require_own(parts, trust)
    if sys.platform != "win32" and os.geteuid() == 0:
        used = [root / "smoke", project.specs, lock, (home / "current").resolve()]
        for part in filter(Path.exists, parts):
            _require_unwritable(str(part), part.stat(), root)
        _require_no_other_writer(root, used, trust)


def _require_no_other_writer(root: Path, folders: Iterable[Path], trust: str) -> None:
    """Stop root at the first file of another user, or that every user can change."""
    trusted = _trusted(0)
    for entry in _below(root, folders):
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # another process has removed it meanwhile
            continue
        if state.st_uid not in trusted:
            require_own([Path(entry.path)], trust)
        if state.st_mode & stat.S_IWOTH:
            _require_unwritable(entry.path, state, root)


def _below(root: Path, folders: Iterable[Path]) -> Iterator[os.DirEntry[str]]:
    """Yield the files of a project's root, and all that is in some folders."""
    # An environment has 25,000 entries: a Path of each would take a second.
    waiting = [str(folder) for folder in (root, *folders) if folder.is_dir()]
    while waiting:
        folder = waiting.pop()
        for entry in _entries(folder):
            if not entry.is_dir(follow_symlinks=False):
                yield entry
            elif folder != str(root):
                waiting.append(entry.path)
                yield entry


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing of one that another process has removed meanwhile."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _require_unwritable(path: str, state: os.stat_result, root: Path) -> None:
    """Stop at what every user can change: root would run what they write."""
    mode = state.st_mode
    if not mode & stat.S_IWOTH or stat.S_ISLNK(mode) or path.endswith(_LOCKS):
        return
    # Nobody replaces what others have there.
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
        return
    raise UsageError(
        f"every user of this machine can change {path}",
        evidence=f"its mode is {stat.filemode(mode)}, and you are root",
        cause="what it holds would run with the rights of root",
        remedy=f"read it, then `chmod o-w {shlex.quote(path)}`; where nobody else uses this "
        f"machine, name the project: {naming(root)}",
    )


def _trusted(me: int) -> frozenset[int]:
    # This process's user, root, the user who called sudo, and the toolkit's own owner.
    trusted = {0, me, os.stat(__file__).st_uid}  # noqa: PTH116 - no Path is at hand
    if me == 0 and (caller := os.environ.get("SUDO_UID", "")).isdigit():
        trusted.add(int(caller))
    return frozenset(trusted)


def require_own(paths: Iterable[Path], remedy: str) -> None:
    """Stop at the first path whose owner is not trusted; of a link, also what it points to."""
    if sys.platform == "win32":
        return
    me = os.geteuid()
    trusted = _trusted(me)
    for path in paths:
        for follow in (False, True):
            try:
                owner = path.stat(follow_symlinks=follow).st_uid
            except OSError:  # absent, or a link to nothing
                continue
            if owner not in trusted:
                raise _foreign(path, owner, me, remedy)


def _foreign(path: Path, owner: int, me: int, remedy: str) -> UsageError:
    unknown = ""
    if owner == _UNMAPPED:
        unknown = ", which this container does not know"
    return UsageError(
        f"{path} belongs to another user",
        evidence=f"its owner has the id {owner}{unknown}; yours is {me}",
        cause="what it holds would run with your rights",
        remedy=remedy,
    )
