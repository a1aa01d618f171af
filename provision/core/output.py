"""The files that a user names for a result: only one that Provision wrote is overwritten."""

from collections.abc import Callable
from pathlib import Path

from provision.core.errors import UsageError
from provision.core.filesystem import write_atomic
from provision.core.limits import open_regular

_HEAD = 4096  # bytes in which a file shows what wrote it
IsOurs = Callable[[Path], bool]


def write_output(file: Path, content: str, mark: str, earlier: str = "") -> None:
    """Write a result whose beginning has a line with a mark; UsageError for any other file."""
    require_replaceable(file, begins_with(mark, earlier=earlier))
    write_atomic(file.resolve(), content)


def require_replaceable(file: Path, is_ours: IsOurs) -> None:
    """Raise UsageError where a file exists that Provision did not write, such as a private key."""
    if not (file.exists() or file.is_symlink()):
        return
    if file.exists() and not file.is_file():
        raise UsageError(
            f"{file} is no regular file",
            remedy="name a file that does not exist yet",
        )
    try:
        ours = is_ours(file)
    except OSError:  # one that this user may not read
        ours = False
    if not ours:
        raise UsageError(
            f"{file} exists, and was not made by this command",
            cause="only a file that Provision wrote is overwritten",
            remedy="name another file, or remove it first",
        )


def begins_with(*marks: str, earlier: str = "") -> IsOurs:
    """Return what tells an empty file, and one of whose first lines one begins with a mark.

    A mark that ends with a newline is a whole line. ``earlier`` is the first text of files that an
    earlier version wrote without a mark.
    """
    ours = tuple(mark.encode() for mark in marks)

    def is_ours(file: Path) -> bool:
        with open_regular(file) as stream:
            lines = stream.read(_HEAD).splitlines()
        text = b"\n".join(lines)
        if not lines or (earlier and text.lstrip().startswith(earlier.encode())):
            return True
        return any((line + b"\n").startswith(ours) for line in lines)

    return is_ours
