"""Edits of a project's files as one transaction: all of them or none, however the command ends.

What a file was is noted before it is changed. The journal of a command that was killed stays, and
the next one that edits or locks puts the files back first, unless somebody has changed them since.
"""

import base64
import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from provision.core.errors import ProvisionError, ToolError, UsageError, os_errors
from provision.core.filesystem import remove_unwritten, write_atomic
from provision.core.hashing import sha256_bytes
from provision.core.limits import (
    decoded,
    encoded_as,
    is_inside,
    read_if_any,
    read_parsed,
    repository_of,
)
from provision.core.locking import folder_lock, waiting
from provision.core.progress import Progress
from provision.core.project import Project

_LOCK = "edit.lock"  # in the folder of the project's caches


@dataclass
class Edits:
    """The files that a command changes, and what they were."""

    root: Path  # of the project
    journal: Path | None  # None: it cannot be written
    before: dict[Path, bytes | None] = field(default_factory=dict)  # None: no file
    became: dict[Path, list[str]] = field(default_factory=dict)  # each digest since
    folders: list[Path] = field(
        default_factory=list
    )  # that were made, outer ones first
    # Locks of several targets are written by threads.
    guard: threading.Lock = field(default_factory=threading.Lock)

    def write(self, path: Path, content: bytes | None) -> None:
        """Change a file, make one, or remove it (None); its mode and its owner stay."""
        with self.guard:
            self.before.setdefault(path, _content(path))
            self.became.setdefault(path, []).append(_digest(content))
            self.save()
            above = (path.parent, *path.parent.parents)
            self.folders += reversed([each for each in above if not each.exists()])
        _put(path, content)

    @property
    def changed(self) -> list[Path]:
        """The files that are not what they were."""
        return [path for path, was in self.before.items() if _content(path) != was]

    def lines(self, path: Path) -> tuple[list[str], list[str] | None]:
        """Return the lines of a file before and now; None for now where it is as it was."""
        path = Path(os.path.realpath(path))
        if path not in self.changed:
            return [], None
        before, now = self.before[path] or b"", _content(path) or b""
        return decoded(before).splitlines(), decoded(now).splitlines()

    @property
    def foreign(self) -> list[Path]:
        """The files of these that somebody else has changed since."""
        return [path for path in self.changed if not self._is_own(path)]

    def _is_own(self, path: Path) -> bool:
        return _digest(_content(path)) in self.became.get(path, ())

    def put_back(self) -> list[Path]:
        """Make the files what they were that only this edit changed, and return these."""
        own = [path for path in self.changed if self._is_own(path)]
        for path in own:
            _put(path, self.before[path])
        for folder in reversed(self.folders):
            with contextlib.suppress(OSError):  # it has files of somebody else
                folder.rmdir()
        return own

    def close(self) -> None:
        """Forget what the files were."""
        if self.journal:
            self.journal.unlink(missing_ok=True)

    def save(self) -> None:
        """Write down what the files were."""
        if not self.journal:
            return
        files = {}
        for path, content in self.before.items():
            was = None if content is None else base64.b64encode(content).decode()
            files[str(path)] = {"before": was, "became": self.became[path]}
        write_atomic(self.journal, json.dumps({"files": files}, indent=1) + "\n")


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        write_atomic(path, content, keep_owner=True)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _digest(content: bytes | None) -> str:
    return sha256_bytes(content or b"")


_CURRENT: ContextVar[Edits | None] = ContextVar("edits", default=None)


def rewrite(path: Path, text: str | bytes) -> None:
    """Write a file of the project in its own encoding, through a link, as part of :func:`editing`."""
    if edits := _CURRENT.get():
        _require_inside(path, edits.root)
    path = Path(os.path.realpath(path))
    content = text if isinstance(text, bytes) else encoded_as(text, read_if_any(path))
    write = edits.write if edits else _put
    write(path, content)


def _require_inside(path: Path, root: Path) -> None:
    # A clone may have links, to write a file of its user.
    if not is_inside(path, root):
        raise UsageError(
            f"{path} is outside the project {repository_of(root)}",
            evidence=f"it is a link, or in a linked folder, and leads to {os.path.realpath(path)}",
            remedy="replace the link by a file or a folder of the project",
        )


@contextlib.contextmanager
def editing(project: Project, progress: Progress) -> Iterator[Edits]:
    """Let one command at a time edit a project; if it fails, all files are as they were."""
    with editing_alone(project, progress):
        edits = _begun(project, progress)
        token = _CURRENT.set(edits)
        try:
            yield edits
        except BaseException as error:
            _undo_failed(edits, error, progress)
            edits.close()
            raise
        finally:
            _CURRENT.reset(token)
        edits.close()


def _undo_failed(edits: Edits, error: BaseException, progress: Progress) -> None:
    foreign = edits.foreign
    own = edits.put_back()
    lines = []
    if own:
        lines.append(f"put back as before: {_names(own)}")
    if foreign:
        lines.append(
            f"changed by another program meanwhile, and left: {_names(foreign)}"
        )
    if isinstance(error, ProvisionError):
        error.evidence = "\n".join([error.evidence, *lines])
    else:  # Ctrl-C shows no evidence
        for line in lines:
            progress.note(line)


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(map(str, paths))


def undo_killed_edit(project: Project, progress: Progress) -> None:
    """Put back what a killed command left half edited, if there is such a one."""
    journal = _journal(project)
    if journal and journal.is_file():
        with editing_alone(project, progress):
            pass


@contextlib.contextmanager
def editing_alone(project: Project, progress: Progress) -> Iterator[None]:
    """Let no other command edit or lock meanwhile; what a killed one left is undone first."""
    waits = waiting("the specs", progress)
    cache = project.root / ".cache"
    is_new = not cache.exists()
    with folder_lock(cache, waits, name=_LOCK):
        journal = _journal(project)
        if journal and journal.is_file():
            _undo(project.root, journal, progress)
        try:
            yield
        except BaseException:
            if is_new:
                _remove_lock(cache)
            raise


def _remove_lock(cache: Path) -> None:
    """Leave a folder that became no project as it was; the lock of its edits must be held."""
    with contextlib.suppress(OSError):  # Windows removes no open file
        (cache / _LOCK).unlink()
        cache.rmdir()


def _journal(project: Project) -> Path | None:
    # Not in the project, which may be somebody else's: what it says is written to disk.
    return project.private / "edit.json" if project.private else None


def _begun(project: Project, progress: Progress) -> Edits:
    journal = _journal(project)
    edits = Edits(project.root, journal)
    if journal is None:
        progress.note("this user has no home folder: a killed edit cannot be undone")
        return edits
    try:
        with os_errors(f"cannot write {journal}", "check its folder"):
            journal.parent.mkdir(parents=True, exist_ok=True)
            journal.touch(mode=0o600)  # it gets what may be for the user's eyes only
        edits.save()
    except ToolError as error:
        progress.note(f"{error.what}: a killed edit cannot be undone")
        edits.journal = None
    return edits


def _undo(root: Path, journal: Path, progress: Progress) -> None:
    """Undo an edit whose command was killed; one that somebody went on with stays."""
    try:
        killed = _read(root, journal)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _set_aside(journal, error, progress)
        return
    for path in killed.before:
        remove_unwritten(path)
    # A file that was put back by hand may have got a newer lock: all files, or none.
    if killed.foreign:
        names = _names(killed.became)
        progress.note(f"an edit was interrupted, and changed since: {names}")
    elif own := killed.put_back():
        progress.note(f"an edit was interrupted; put back as before: {_names(own)}")
    killed.close()


def _set_aside(journal: Path, error: Exception, progress: Progress) -> None:
    damaged = journal.with_name("edit.damaged.json")
    journal.replace(damaged)
    progress.note(
        f"an edit was interrupted, and its journal is damaged ({error}): compare the project's "
        f"specs, requirement files and locks with your last commit, and remove {damaged}"
    )


def _read(root: Path, journal: Path) -> Edits:
    """Read a journal; OSError, ValueError, KeyError, TypeError or AttributeError if it is damaged."""
    edits = Edits(root, journal)
    if not journal.stat().st_size:  # killed before the first change
        return edits
    for name, entry in read_parsed(journal, json.loads)["files"].items():
        path = Path(name)
        was = entry["before"]
        became = entry["became"]
        if not isinstance(became, list):
            raise TypeError(f"{name}: became is {became!r}, not a list")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # a name can be too long
        content = None if was is None else base64.b64decode(was, validate=True)
        edits.before[path] = content
        edits.became[path] = became
    return edits
