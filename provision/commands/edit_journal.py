"""Edits of a project's files as one transaction: all of them or none, however the command ends.

What a file was is noted before it is changed. The journal of a command that was killed stays, and
the next one that edits or locks puts the files back first, unless somebody has changed them since.
"""

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from provision.core.errors import ProvisionError, ToolError, os_errors
from provision.core.filesystem import remove_unwritten, write_atomic
from provision.core.hashing import sha256_bytes
from provision.core.limits import encoded_as, read_if_any
from provision.core.locking import folder_lock, waiting
from provision.core.progress import Progress
from provision.core.project import Project


@dataclass
class Edits:
    """The files that a command changes, and what they were."""

    journal: Path | None  # None: it cannot be written
    before: dict[Path, bytes | None] = field(default_factory=dict)  # None: no file
    # What each may have become since; empty of what is generated, such as a lock.
    became: dict[Path, list[str]] = field(default_factory=dict)

    def expect(self, paths: Iterable[Path]) -> None:
        """Note what files are that get generated."""
        for path in paths:
            self.before.setdefault(path, _content(path))
        self.save()

    def write(self, path: Path, content: bytes) -> None:
        """Change a file, or make one; its mode and its owner stay."""
        self.before.setdefault(path, _content(path))
        self.became.setdefault(path, []).append(sha256_bytes(content))
        self.save()
        write_atomic(path, content, keep_owner=True)

    @property
    def changed(self) -> list[Path]:
        """The files that are not what they were."""
        return [path for path, was in self.before.items() if _content(path) != was]

    @property
    def is_untouched(self) -> bool:
        """Whether nobody else has changed what was edited since."""
        for path, digests in self.became.items():
            now = _content(path)
            if now != self.before[path] and sha256_bytes(now or b"") not in digests:
                return False
        return True

    def put_back(self) -> list[Path]:
        """Make all files what they were, and return those that were something else."""
        changed = self.changed
        for path in changed:
            if (content := self.before[path]) is None:
                path.unlink()
            else:
                write_atomic(path, content, keep_owner=True)
        return changed

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
            files[str(path)] = {"before": was, "became": self.became.get(path, [])}
        write_atomic(self.journal, json.dumps({"files": files}, indent=1) + "\n")


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


_CURRENT: ContextVar[Edits | None] = ContextVar("edits", default=None)


def rewrite(path: Path, text: str | bytes) -> None:
    """Write a file of the project in its own encoding, through a link, as part of :func:`editing`."""
    path = path.resolve()
    content = text if isinstance(text, bytes) else encoded_as(text, read_if_any(path))
    if edits := _CURRENT.get():
        edits.write(path, content)
    else:
        write_atomic(path, content, keep_owner=True)


@contextlib.contextmanager
def editing(project: Project, progress: Progress) -> Iterator[Edits]:
    """Let one command at a time edit a project; if it fails, all files are as they were."""
    with _alone(project, progress):
        edits = _begun(_journal(project), progress)
        token = _CURRENT.set(edits)
        try:
            yield edits
        except BaseException as error:
            changed = edits.put_back()
            if isinstance(error, ProvisionError) and changed:
                names = ", ".join(map(str, changed))
                error.evidence += f"\nput back as before: {names}"
            edits.close()
            raise
        finally:
            _CURRENT.reset(token)
        edits.close()


def undo_killed_edit(project: Project, progress: Progress) -> None:
    """Put back what a killed command left half edited, if there is such a one."""
    if _journal(project).is_file():
        with _alone(project, progress):
            pass


@contextlib.contextmanager
def _alone(project: Project, progress: Progress) -> Iterator[None]:
    waits = waiting("the specs", progress)
    with folder_lock(project.root / ".cache", waits, name="edit.lock"):
        if _journal(project).is_file():
            _undo(_journal(project), progress)
        yield


def _journal(project: Project) -> Path:
    # Not in the project, which may be somebody else's: what it says is written to disk.
    return project.private / "edit.json"


def _begun(journal: Path, progress: Progress) -> Edits:
    edits = Edits(journal)
    try:
        with os_errors(f"cannot write {journal}", "check its folder"):
            journal.parent.mkdir(parents=True, exist_ok=True)
            journal.touch(mode=0o600)  # it gets what may be for the user's eyes only
        edits.save()
    except ToolError as error:
        progress.note(f"{error.what}: a killed edit cannot be undone")
        edits.journal = None
    return edits


def _undo(journal: Path, progress: Progress) -> None:
    """Undo an edit whose command was killed; one that somebody went on with stays."""
    killed = _read(journal)
    for path in killed.before:
        remove_unwritten(path)
    if not killed.is_untouched:
        names = ", ".join(map(str, killed.became))
        progress.note(f"an edit was interrupted, and changed since: {names}")
    elif changed := killed.put_back():
        names = ", ".join(map(str, changed))
        progress.note(f"an edit was interrupted; put back as before: {names}")
    killed.close()


def _read(journal: Path) -> Edits:
    """Read a journal; one that is not there or cannot be read tells of no file."""
    found = Edits(journal)
    try:
        files = json.loads(read_if_any(journal) or b"{}").get("files", {})
        for name, entry in files.items():
            was = entry["before"]
            content = None if was is None else base64.b64decode(was)
            found.before[Path(name)] = content
            if entry["became"]:
                found.became[Path(name)] = entry["became"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return Edits(journal)
    return found
