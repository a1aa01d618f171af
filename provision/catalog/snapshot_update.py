"""What refreshing a snapshot finds out, file by file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from provision.core.errors import ProvisionError

File = TypeVar("File")


@dataclass(frozen=True, slots=True)
class Reupload:
    """Another file under a name that the catalog knows; refused, the catalog keeps the old hash.

    Attributes:
        filename: The name.
        known: SHA-256 in the catalog.
        offered: SHA-256 that is offered now.
    """

    filename: str
    known: str
    offered: str


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What refreshing one snapshot found.

    Attributes:
        name: Of the index or channel.
        added: Files that the catalog did not have.
        completed: Files of which hash, size, address, requirements or confirmation were learned.
        reuploads: Files that changed under their name; refused.
        vanished: Files that the index does not list any more; kept.
        errors: What failed; the files concerned are unchanged.
    """

    name: str
    added: tuple[str, ...]
    completed: tuple[str, ...]
    reuploads: tuple[Reupload, ...]
    vanished: tuple[str, ...]
    errors: tuple[ProvisionError, ...]

    @property
    def bad(self) -> bool:
        """Whether something needs a person's attention."""
        return bool(self.reuploads or self.errors)


class SnapshotUpdate(Generic[File]):
    """The files of a snapshot, and what is being found out about them.

    Attributes:
        files: File by name; what is learned goes here.
        vanished: Names that are not listed any more.
        errors: What failed.
    """

    def __init__(self, files: dict[str, File]) -> None:
        self.files = files
        self.vanished: list[str] = []
        self.errors: list[ProvisionError] = []
        self._added: list[str] = []
        self._completed: list[str] = []
        self._reuploads: list[Reupload] = []

    def note(self, filename: str, now: File | Reupload) -> None:
        """Take in what is known of a file now."""
        before = self.files.get(filename)
        if isinstance(now, Reupload):
            self._reuploads.append(now)
        elif now != before:
            self.files[filename] = now
            (self._added if before is None else self._completed).append(filename)

    @property
    def changed(self) -> bool:
        """Whether any file is new or better known."""
        return bool(self._added or self._completed)

    def result(self, name: str) -> RefreshResult:
        """Return all that was found out."""
        return RefreshResult(
            name,
            tuple(self._added),
            tuple(self._completed),
            tuple(self._reuploads),
            tuple(self.vanished),
            tuple(self.errors),
        )
