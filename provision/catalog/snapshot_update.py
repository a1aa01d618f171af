"""The result of refreshing a snapshot, file by file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from provision.core.errors import ProvisionError

File = TypeVar("File")


@dataclass(frozen=True, slots=True)
class Reupload:
    """A different file under a name of the catalog; refused, the catalog keeps the old hash."""

    filename: str  # name of the file
    known: str  # SHA-256 in the catalog
    offered: str  # SHA-256 that the index lists now


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The changes of one refreshed snapshot.

    Attributes:
        name: Name of the index or channel.
        added: Files that are new in the catalog.
        completed: Files whose hash, size, URL, requirements or confirmation were added.
        reuploads: Files that changed under their name; refused.
        vanished: Files that the index no longer lists; kept, because a wheelhouse may have them.
        errors: Failures; the files concerned are unchanged.
    """

    name: str
    added: tuple[str, ...]
    completed: tuple[str, ...]
    reuploads: tuple[Reupload, ...]
    vanished: tuple[str, ...]
    errors: tuple[ProvisionError, ...]

    @property
    def bad(self) -> bool:
        """Whether the result needs a person's attention."""
        return bool(self.reuploads or self.errors)


class SnapshotUpdate(Generic[File]):
    """The files of a snapshot while it is refreshed, and the changes so far.

    Attributes:
        files: Current entry by file name.
        vanished: Names that are no longer listed.
        errors: Failures.
    """

    def __init__(self, files: dict[str, File]) -> None:
        self.files = files
        self.vanished: list[str] = []
        self.errors: list[ProvisionError] = []
        self._added: list[str] = []
        self._completed: list[str] = []
        self._reuploads: list[Reupload] = []

    def record(self, filename: str, now: File | Reupload) -> None:
        """Add the current entry of a file, or refuse it."""
        before = self.files.get(filename)
        if isinstance(now, Reupload):
            self._reuploads.append(now)
        elif now != before:  # an unchanged entry must not rewrite the file
            self.files[filename] = now
            (self._added if before is None else self._completed).append(filename)

    @property
    def changed(self) -> bool:
        """Whether any file was added or completed."""
        return bool(self._added or self._completed)

    def result(self, name: str) -> RefreshResult:
        """Return all changes."""
        return RefreshResult(
            name,
            tuple(self._added),
            tuple(self._completed),
            tuple(self._reuploads),
            tuple(self.vanished),
            tuple(self.errors),
        )
