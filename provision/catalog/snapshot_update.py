"""The result of refreshing a snapshot, file by file."""

from dataclasses import dataclass, field
from typing import TypeVar

from provision.catalog.snapshot import ChannelPackage, DriverFile, Wheel
from provision.core.errors import ProvisionError

FileT = TypeVar("FileT", "Wheel", "ChannelPackage", "DriverFile")


@dataclass(frozen=True, slots=True)
class Reupload:
    """A different file under a name of the catalog; refused, the catalog keeps the old hash."""

    filename: str  # name of the file
    known: str  # SHA-256 in the catalog
    offered: str  # SHA-256 that the index lists now


@dataclass(slots=True)
class RefreshResult:
    """The changes of one refreshed snapshot."""

    name: str  # of the index, channel or driver release
    added: list[str] = field(default_factory=list)
    # Files whose hash, size, URL, requirements or confirmation were added.
    completed: list[str] = field(default_factory=list)
    reuploads: list[Reupload] = field(default_factory=list)
    # Files that the index no longer lists; kept, because a wheelhouse may have them.
    vanished: list[str] = field(default_factory=list)
    # Files that the vendor withdrew, with the reason; kept as well.
    yanked: list[str] = field(default_factory=list)
    errors: list[ProvisionError] = field(default_factory=list)  # the files concerned are unchanged

    @property
    def bad(self) -> bool:
        """Whether the result needs a person's attention."""
        return bool(self.reuploads or self.errors)

    def record(self, files: dict[str, FileT], now: FileT) -> None:
        """Add the current entry of a file to a catalog's, or refuse it.

        A hash that differs from the one in the catalog is never taken over: the name then stands
        for another file, and locks with the old hash would be silently replaced.
        """
        name, before = now.filename, files.get(now.filename)
        if before and before.sha256 and now.sha256 and before.sha256 != now.sha256:
            self.reuploads.append(Reupload(name, before.sha256, now.sha256))
        elif now != before:  # an unchanged entry must not rewrite the file
            files[name] = now
            (self.added if before is None else self.completed).append(name)
