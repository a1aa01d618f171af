"""How much is read of what others wrote, and from where: files, pages of an index, downloads, pipes.

Each limit is several times the largest that was seen in use. What exceeds one raises OSError, and
what cannot be parsed ValueError; readers turn them into an error that names the file.
"""

import codecs
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, AnyStr, BinaryIO

from provision.core.home import home_folder
from provision.core.text import size

FILE = 16_000_000  # bytes of a spec, catalog, lock, report or record; the largest has 0.2 MB
LINE = 200_000  # characters of a requirement with all of its hashes; the longest has 20,000
NESTED = 20  # files that include each other, levels of YAML; 6 were seen
INCLUDED = 1_000  # files that one file includes, with those that they include
EXPANDED = 200  # uses of extras by other extras of a project; 90 were seen
PAGE = (
    16_000_000  # bytes of an index page, unpacked; those of nightly builds have 10 MB
)
LINKS = 50_000  # of an index page in HTML, which takes 0.2 ms for each; the largest has 20,000
METADATA = 8_000_000  # bytes of a wheel's METADATA; long readmes reach 1 MB
DOWNLOAD = 16_000_000_000  # bytes of a file whose size is not known; the largest wheel has 3 GB
STREAM = 2_000_000_000  # bytes of a log from a pipe or device, which may never end


def open_regular(path: str | Path, *, follow: bool = True) -> BinaryIO:
    """Open a file for reading; a pipe or a device, which might never end, is refused.

    Without ``follow`` a link is refused, too; Windows has no such flag.
    """
    # O_NONBLOCK: opening a pipe would wait for a writer. It has no effect on regular files.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, *, follow: bool = True) -> bytes:
    """Return the content of a file of at most ``FILE`` bytes."""
    with open_regular(path, follow=follow) as stream:
        (content,) = bounded([stream.read(FILE + 1)], FILE, str(path))
        return content


def read_if_any(path: Path) -> bytes | None:
    """Return the content of a file of at most ``FILE`` bytes; None where it cannot be read."""
    try:
        return read_bytes(path)
    except OSError:
        return None


def read_text(path: Path) -> str:
    """Return the content of a text file of at most ``FILE`` bytes."""
    text = decoded(read_bytes(path))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def decoded(content: bytes) -> str:
    """Return a text in UTF-8, or in UTF-16 with its mark, as PowerShell writes and pip reads it."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16")
    return content.decode("utf-8-sig")


def encoded_as(text: str, content: bytes | None) -> bytes:
    """Return a text in the encoding of a content, with its mark; else in UTF-8."""
    marks = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encodings = ("utf-8", "utf-16-le", "utf-16-be")
    for mark, encoding in zip(marks, encodings, strict=True):
        if content and content.startswith(mark):
            return mark + text.encode(encoding)
    return text.encode()


def read_parsed(path: Path, parse: Callable[[str], Any]) -> Any:  # noqa: ANN401 - not validated
    """Return what a parser makes of a file."""
    try:
        return parse(read_text(path))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def repository_of(folder: Path) -> Path:
    """Return the repository that a folder is in: the nearest folder with ``.git``, or itself."""
    folder = folder.resolve()
    home = home_folder()
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            # Some keep their settings in git: all of a home is no part of what was unpacked there.
            return folder if home and place == home.resolve() else place
    return folder


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file, and what it links to, is in the repository that a folder is in."""
    # Else a clone could have any file of this machine read, and quoted in a public log.
    # Not path.resolve(), which raises RuntimeError for a link to itself; opening it says so.
    return Path(os.path.realpath(path)).is_relative_to(repository_of(folder))


def require_inside(path: Path, folder: Path) -> None:
    """Raise ValueError where a file is not in the repository that a folder is in."""
    if not is_inside(path, folder):
        raise ValueError(f"{path} is outside the project {repository_of(folder)}")


def bounded(pieces: Iterable[AnyStr], most: int, name: str) -> Iterator[AnyStr]:
    """Yield pieces; OSError if they are more than ``most`` bytes, or signs, together."""
    left = most
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise OSError(
                errno.EFBIG, f"more than {size(most)}, which is the limit", name
            )
        yield piece
