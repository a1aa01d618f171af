"""Programs that use an environment hold it, and what is held is not removed.

They share a lock on the folder's tag until the last of them ends. A program that was started
directly holds nothing: Linux tells of it in /proc. Windows removes nothing that is open.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.filesystem import TAG, remove_link, remove_tagged, swap_link
from provision.core.locking import try_lock

_HIGH = 64  # shell scripts use descriptors from 3 on by their number


def hold(folder: Path) -> int | None:
    """Hold an environment until all close the returned descriptor; None if it was removed."""
    with contextlib.suppress(OSError), (folder / TAG).open("rb") as tag:
        if sys.platform == "win32":
            return os.dup(tag.fileno())
        import fcntl  # noqa: PLC0415 - absent on Windows

        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(tag, fcntl.LOCK_SH)
        # While this waited, a removal may have renamed the folder.
        if os.path.samestat(os.fstat(tag.fileno()), (folder / TAG).stat()):
            return fcntl.fcntl(tag, fcntl.F_DUPFD, _HIGH)
    return None


def remove_unused(folder: Path, link: Path | None = None) -> str:
    """Remove a tagged folder, unless a program uses it: then return which one."""
    with contextlib.ExitStack() as stack:
        if user := user_of(folder, stack):
            return user
        if link:
            remove_link(link)
        try:
            remove_tagged(folder)
        except ToolError as error:
            if sys.platform != "win32" or not isinstance(
                error.__cause__, PermissionError
            ):
                raise
            if link:
                swap_link(link, folder)
            return f"a program ({error.evidence})"
        return ""


def user_of(folder: Path, stack: contextlib.ExitStack) -> str:
    """Return which program uses a folder; else hold it alone on the stack. Not on Windows."""
    held = False
    if sys.platform == "win32":
        return ""
    with contextlib.suppress(OSError):  # a folder that was killed while made has no tag
        held = not try_lock(stack.enter_context((folder / TAG).open("r+b")).fileno())
    return _users(folder) or ("a program that Provision started" if held else "")


def _users(folder: Path) -> str:
    """Return the programs that run from a folder, as Linux tells; other users' only in part."""
    place = os.path.realpath(folder) + os.sep
    processes = Path("/proc").glob("[0-9]*")
    users = []
    for process in processes:
        if any(path.startswith(place) for path in _paths(process)):
            users.append(f"{Path(_program(process)).name} (process {process.name})")
    return ", ".join(users)


def _paths(process: Path) -> Iterator[str]:
    """Yield a process's working folder, its program as it was found, its mapped files."""
    with contextlib.suppress(OSError):
        where, program = str((process / "cwd").readlink()), _program(process)
        yield where + os.sep
        # Not `exe`: the Python of a virtual environment is a link to one outside.
        folders = [os.path.dirname(program)]  # noqa: PTH120 - "./x" would lose its folder
        if folders == [""]:
            variables = os.fsdecode((process / "environ").read_bytes()).split("\0")
            search = next((v[5:] for v in variables if v.startswith("PATH=")), "")
            folders = search.split(os.pathsep)
        tried = [Path(where, folder, os.path.basename(program)) for folder in folders]  # noqa: PTH119
        if found := next((path for path in tried if os.access(path, os.X_OK)), None):
            yield os.path.realpath(found.parent) + os.sep
        for line in os.fsdecode((process / "maps").read_bytes()).splitlines():
            yield line[line.find("/") :]


def _program(process: Path) -> str:
    with contextlib.suppress(OSError):
        return os.fsdecode((process / "cmdline").read_bytes()).partition("\0")[0]
    return ""
