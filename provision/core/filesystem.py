"""Access to the disk: atomic writes, removal of tagged folders only, swapping of links."""

import contextlib
import ctypes
import glob
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from provision.core.errors import ToolError, os_errors

if sys.platform == "win32":
    import _winapi

# Not CACHEDIR.TAG, which uv writes into every environment, so it would not prove who made it.
TAG = "provision.tag"
_NO_JUNCTIONS = (1, 50)  # ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED
_MAKING = ".making-"  # prefix of a new folder's name until it has the tag
_REMOVING = ".removing-"  # of one that is removed; its tag goes last
_TAG_TEXT = "This folder was made by Provision, which may remove it.\n"


def extended(path: str | Path) -> str:
    r"""Return a path with ``\\?\``, which Windows opens beyond 259 characters; else unchanged."""
    if sys.platform != "win32":
        return str(path)
    full = os.path.abspath(path)  # noqa: PTH100 - pathlib leaves `..` where it is
    if full.startswith("\\\\?\\"):
        return full
    if full.startswith("\\\\"):
        return f"\\\\?\\UNC{full[1:]}"
    return f"\\\\?\\{full}"


def write_atomic(path: Path, content: str | bytes, *, keep_owner: bool = False) -> None:
    """Write a file so that a reader sees the old content or the new, never a part.

    A text is written as UTF-8. Who may read and write the file stays as it was, and with
    ``keep_owner`` whose it is, where the system lets us.
    """
    # Not in the platform's line ends: locks and images are compared by their bytes.
    data = content.encode() if isinstance(content, str) else content
    # It is flushed to the disk before it is renamed: else a power loss can leave it empty.
    with os_errors(f"cannot write {path}", "check its folder and the free space"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_unwritten(path), dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            # mkstemp makes it private, but other users run environments.
            before = path.stat() if path.is_file() else None
            if keep_owner and before and sys.platform != "win32":
                with contextlib.suppress(PermissionError):
                    os.chown(name, before.st_uid, before.st_gid)
            Path(name).chmod(stat.S_IMODE(before.st_mode) if before else 0o644)
            Path(name).replace(path)
            sync_folder(path.parent)
        except BaseException:  # Ctrl-C, too, must leave no temporary file
            Path(name).unlink(missing_ok=True)
            raise


def remove_unwritten(path: Path) -> None:
    """Remove what :func:`write_atomic` left beside a file when it was killed; none may be running."""
    for left in path.parent.glob(f"{glob.escape(_unwritten(path))}*"):
        left.unlink(missing_ok=True)


def _unwritten(path: Path) -> str:
    return f".{path.name}.provision-"


def sync_folder(folder: Path, *, with_files: bool = False) -> None:
    """Flush the names in a folder to the disk, so that a rename survives a power loss."""
    if sys.platform == "win32":  # it opens no folder, and would have to open each file
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if with_files:  # Python has no syncfs; os.sync waits for other disks as well
            libc = ctypes.CDLL(None)
            getattr(libc, "syncfs", lambda _: os.sync())(handle)
        else:
            os.fsync(handle)
    finally:
        os.close(handle)


def make_tagged(folder: Path) -> None:
    """Make a new folder with our tag, so that :func:`remove_tagged` may remove it."""
    # Tagged under another name: killed, this leaves nothing that could not be removed later.
    fresh = folder.with_name(f"{_MAKING}{os.getpid()}-{folder.name}")
    with os_errors(f"cannot make {folder}", "check the folder above it"):
        fresh.mkdir(parents=True)
        tag(fresh)
        fresh.rename(folder)


def tag(folder: Path) -> None:
    """Mark a folder as ours; its own files are then ours to remove."""
    # Replaced, since it may be a link into a cache.
    write_atomic(folder / TAG, _TAG_TEXT)


def is_tagged(folder: Path) -> bool:
    """Whether a folder is ours: no link, and it has the tag, or a name of before or after it."""
    if is_link(folder):
        return False
    try:
        return (folder / TAG).read_text(encoding="utf-8") == _TAG_TEXT
    except (OSError, UnicodeDecodeError):
        if not folder.is_dir():
            return False
        if folder.name.startswith(_REMOVING):
            return not any(folder.iterdir())
        return folder.name.startswith(_MAKING)


def remove_tagged(folder: Path) -> None:
    """Remove a folder that :func:`make_tagged` made; anything else is refused."""
    # It is renamed first, so that an interrupted removal leaves no part of an environment under its
    # name, and the tag goes last, so that the rest can be recognised and removed later.
    if not is_tagged(folder):
        raise ToolError(
            f"will not remove {folder}",
            cause="it does not have Provision's tag, so Provision did not make it",
            remedy="remove it by hand if it is not needed",
        )
    name = folder.name.removeprefix(_REMOVING)
    doomed = folder.with_name(f"{_REMOVING}{os.getpid()}-{name}")
    with os_errors(
        f"cannot remove {folder}",
        "end that program and try again",
        cause="a program may be running from it",
    ):
        folder.rename(doomed)
        for entry in doomed.iterdir():
            if entry.name != TAG:
                # A link is removed itself: what it points to is not ours.
                if entry.is_dir() and not is_link(entry):
                    shutil.rmtree(extended(entry))
                else:
                    entry.unlink()
        shutil.rmtree(doomed)


def is_link(path: Path) -> bool:
    """Whether a path is a symbolic link or, on Windows, a junction."""
    with contextlib.suppress(OSError):
        # Path.is_junction() needs Python 3.12. Any reparse point counts, so that no removal follows
        # one to a folder that is not ours.
        return path.is_symlink() or bool(getattr(os.lstat(path), "st_reparse_tag", 0))
    return False


def read_link(link: Path) -> Path | None:
    """Return where a link of :func:`swap_link` points: a sibling, itself no link; else None."""
    # Anything else was put there by another program, and may be outside of the project.
    try:
        if sys.platform == "win32":
            name = _pointer(link).read_text("utf-8").strip()
        else:
            name = str(link.readlink())
    except (OSError, UnicodeDecodeError):
        return None
    folder = link.parent / name
    if name == ".." or folder.name != name or is_link(folder):
        return None
    return folder


def remove_link(link: Path) -> None:
    """Remove a link made by :func:`swap_link`, if it is there; what it points to stays."""
    if sys.platform == "win32":
        _pointer(link).unlink(missing_ok=True)
    # A junction is removed as a folder is, and its target stays.
    if is_link(link):
        link.rmdir() if sys.platform == "win32" else link.unlink()


def swap_link(link: Path, folder: Path) -> None:
    """Make ``link`` point at ``folder``, its sibling, in one step."""
    # On Windows a symbolic link needs a privilege, and a junction cannot be replaced in one step or
    # made on FAT, exFAT and network drives. So a small file beside the link, written atomically,
    # decides there; the junction is for people only.
    if sys.platform == "win32":
        write_atomic(_pointer(link), f"{folder.name}\n")
    with os_errors(
        f"cannot make {link} point at {folder.name}",
        "check the folder's owner and rights, and end programs that use the link",
    ):
        if sys.platform == "win32":
            _swap_junction(link, folder)
        else:
            _swap_symlink(link, folder)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Hard-link one of gigabytes of files that are only read; copy it where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _pointer(link: Path) -> Path:
    return link.with_name(f".{link.name}")


def _swap_symlink(link: Path, folder: Path) -> None:
    # A symbolic link cannot be changed, but a rename replaces one link by another atomically.
    fresh = link.with_name(f".{link.name}-{os.getpid()}")
    # Left by a killed process that had the same process id.
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(folder.name)
    fresh.replace(link)
    sync_folder(link.parent)


def _swap_junction(link: Path, folder: Path) -> None:
    if sys.platform == "win32":
        if is_link(link):
            link.rmdir()
        try:
            _winapi.CreateJunction(str(folder), str(link))
        except OSError as error:
            # CreateJunction makes an empty folder first, and leaves it behind when it fails.
            with contextlib.suppress(OSError):
                link.rmdir()
            if error.winerror not in _NO_JUNCTIONS:
                raise
