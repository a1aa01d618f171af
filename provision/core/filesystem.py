"""The door to the disk: atomic writes, hashes, folder locks, tagged removal, link swaps."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_WORTH_PROCESSES = 16_000_000  # bytes; below that starting processes costs more than it gains
_POLL = 0.1  # seconds between two tries for a lock
_TAG = "provision.tag"  # not CACHEDIR.TAG: uv writes its own into every environment
_NO_JUNCTIONS = (1, 50)  # ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED
_MAKING = ".making-"  # so is a folder called until it carries the tag
_TAG_TEXT = "This folder was made by Provision, which may remove it.\n"


def sha256_bytes(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_below(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the SHA-256 of many files below a folder, hashed on all cores.

    Processes, not threads, and plain strings, not paths: a PyTorch environment has some 20,000
    small files, for which the interpreter costs more than the hashing (measured: threads gain
    nothing, two processes halve the time).

    Args:
        folder: Where they lie.
        sizes: Bytes of each, by its path below the folder.
    """
    names = sorted(sizes, key=sizes.__getitem__, reverse=True)
    workers = os.cpu_count() or 1
    if workers == 1 or sum(sizes.values()) < _WORTH_PROCESSES:
        return _sha256_share(str(folder), names)
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - slow to import

    # Dealt out by size, so that every worker gets its part of the gigabyte libraries.
    shares = [names[start :: workers * 8] for start in range(workers * 8)]
    found: dict[str, str] = {}
    with ProcessPoolExecutor(workers, initializer=_end_with_parent) as pool:
        for part in pool.map(_sha256_share, [str(folder)] * len(shares), shares):
            found |= part
    return found


def _end_with_parent() -> None:
    """Let a worker die when its parent is killed: it would wait for work for ever.

    And it inherited the folder's lock, so that every later build would wait for it.
    """
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    from multiprocessing import connection, parent_process  # noqa: PLC0415 - slow to import

    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _sha256_share(folder: str, names: list[str]) -> dict[str, str]:
    found = {}
    for name in names:
        path = extended(f"{folder}/{name}")
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - hot
            found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def extended(path: str | Path) -> str:
    r"""Return a path as Windows takes it at any length, which is after ``\\?\``; else unchanged."""
    if sys.platform != "win32":
        return str(path)
    full = os.path.abspath(path)  # noqa: PTH100 - pathlib leaves `..` where it is
    if full.startswith("\\\\?\\"):
        return full
    return f"\\\\?\\UNC{full[1:]}" if full.startswith("\\\\") else f"\\\\?\\{full}"


def write_atomic(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part.

    Raises:
        ToolError: The folder cannot be written or the disk is full; the old file is untouched.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolError(
            f"cannot write {path}",
            evidence=str(error),
            remedy="check its folder and the free space",
        ) from error


@contextlib.contextmanager
def folder_lock(folder: Path, on_wait: Callable[[], None]) -> Iterator[int]:
    """Hold the one lock of a folder; the system drops it when its holders die, however they die.

    Yields the lock's file descriptor. A child that inherits it (``pass_fds`` of
    :func:`provision.core.process.run`) holds the lock too: if this process is killed, nobody else starts
    before the child, which may still be writing, has ended. (Not on Windows.)

    Args:
        folder: The folder to work in; made if it is absent.
        on_wait: Called once if another process holds the lock.

    Raises:
        ToolError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ToolError(
            f"cannot work in {folder}", evidence=str(error), remedy="check its owner and its rights"
        ) from error
    try:
        if not _try_lock(handle):
            on_wait()
            while not _try_lock(handle):
                time.sleep(_POLL)
        yield handle
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - Windows only

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - absent on Windows

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EAGAIN, errno.EDEADLK}:
            return False
        raise
    return True


def make_tagged(folder: Path) -> None:
    """Make a new folder that carries our tag, so that :func:`remove_tagged` may remove it.

    Raises:
        ToolError: It exists, or its parent cannot be written.
    """
    fresh = folder.with_name(f"{_MAKING}{os.getpid()}-{folder.name}")
    try:
        fresh.mkdir(parents=True)
        (fresh / _TAG).write_text(_TAG_TEXT, encoding="utf-8")
        fresh.rename(folder)
    except OSError as error:
        raise ToolError(
            f"cannot make {folder}", evidence=str(error), remedy="check the folder above it"
        ) from error


def is_tagged(folder: Path) -> bool:
    """Whether a folder carries our tag and is no link, or is one that never got that far."""
    if is_link(folder):
        return False
    try:
        return (folder / _TAG).read_text(encoding="utf-8") == _TAG_TEXT
    except (OSError, UnicodeDecodeError):
        return folder.name.startswith(_MAKING) and folder.is_dir()


def remove_tagged(folder: Path) -> None:
    """Remove a folder that :func:`make_tagged` made; anything else is refused.

    The folder is renamed first and its tag goes last, so a removal that is cut short never leaves
    something under the old name, and what it leaves can still be recognised and removed.

    Raises:
        ToolError: The folder does not carry our tag, or the system refuses.
    """
    if not is_tagged(folder):
        raise ToolError(
            f"will not remove {folder}",
            cause="it does not carry Provision's tag, so Provision did not make it",
            remedy="remove it by hand if it is not needed",
        )
    doomed = folder.with_name(f".removing-{os.getpid()}-{folder.name.removeprefix('.removing-')}")
    try:
        folder.rename(doomed)
        for entry in doomed.iterdir():
            if entry.name != _TAG:
                folder_itself = entry.is_dir() and not is_link(entry)
                shutil.rmtree(extended(entry)) if folder_itself else entry.unlink()
        shutil.rmtree(doomed)
    except OSError as error:
        raise ToolError(
            f"cannot remove {folder}",
            evidence=str(error),
            cause="a program may be running from it",
            remedy="end that program and try again",
        ) from error


def is_link(path: Path) -> bool:
    """Whether a path is a symbolic link or, on Windows, a junction."""
    if path.is_symlink():
        return True
    try:
        return bool(getattr(os.lstat(path), "st_reparse_tag", 0))
    except OSError:
        return False


def read_link(link: Path) -> Path | None:
    """Return where a link made by :func:`swap_link` points, or None where there is none."""
    if sys.platform == "win32":
        try:
            return link.parent / _pointer(link).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
    return link.parent / link.readlink().name if is_link(link) else None


def remove_link(link: Path) -> None:
    """Remove a link made by :func:`swap_link`, if it is there; what it points to stays."""
    if sys.platform == "win32":
        _pointer(link).unlink(missing_ok=True)
    if is_link(link):
        link.rmdir() if sys.platform == "win32" else link.unlink()


def swap_link(link: Path, folder: Path) -> None:
    """Make ``link`` point at ``folder``, its sibling, in one step.

    Windows lets anybody make a junction, unlike a symbolic link, but none can be replaced in one
    step, and FAT, exFAT and network drives know none. So a small file beside it is what counts
    there, and the junction is for people: it is absent for a moment, or for good.

    Raises:
        ToolError: The folder of the link cannot be written.
    """
    if sys.platform == "win32":
        write_atomic(_pointer(link), f"{folder.name}\n")
    try:
        _swap_junction(link, folder) if sys.platform == "win32" else _swap_symlink(link, folder)
    except OSError as error:
        raise ToolError(
            f"cannot make {link} point at {folder.name}",
            evidence=str(error),
            remedy="check the folder's owner and rights, and end programs that use the link",
        ) from error


def _pointer(link: Path) -> Path:
    return link.with_name(f".{link.name}")


def _swap_symlink(link: Path, folder: Path) -> None:
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder.name)
    fresh.replace(link)


def _swap_junction(link: Path, folder: Path) -> None:
    if sys.platform == "win32":
        import _winapi  # noqa: PLC0415

        if is_link(link):
            link.rmdir()
        try:
            _winapi.CreateJunction(str(folder), str(link))
        except OSError as error:
            # What it made before it failed is an empty folder.
            with contextlib.suppress(OSError):
                link.rmdir()
            if error.winerror not in _NO_JUNCTIONS:
                raise
