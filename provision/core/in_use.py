"""Programs that use an environment hold it, and what is held is not removed.

They share a lock on the folder's tag until the last of them ends. A program that was started
directly holds nothing: Linux tells of it in /proc. Windows removes nothing that is open.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.filesystem import TAG, remove_link, remove_tagged, swap_link
from provision.core.locking import try_lock

if sys.platform != "win32":
    import fcntl

_HIGH = 64  # shell scripts use descriptors from 3 on by their number


def hold(folder: Path) -> int | None:
    """Hold an environment until all close the returned descriptor; None if it was removed."""
    with contextlib.suppress(OSError), (folder / TAG).open("rb") as tag:
        if sys.platform != "win32":
            with contextlib.suppress(OSError):  # the file system has no locks
                fcntl.flock(tag, fcntl.LOCK_SH)
            # While this waited, a removal may have renamed the folder.
            held = os.fstat(tag.fileno())
            if os.path.samestat(held, (folder / TAG).stat()):
                return fcntl.fcntl(tag, fcntl.F_DUPFD, _HIGH)
        else:
            return os.dup(tag.fileno())
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
            is_open = isinstance(error.__cause__, PermissionError)
            if sys.platform != "win32" or not is_open:
                raise
            if link:
                swap_link(link, folder)
            return f"a program ({error.evidence})"
        return ""


def user_of(folder: Path, stack: contextlib.ExitStack) -> str:
    """Return which program uses a folder; else hold it alone on the stack. Not on Windows."""
    if sys.platform == "win32":
        return ""
    users = _users(folder)
    with contextlib.suppress(OSError):  # a folder that was killed while made has no tag
        tag = stack.enter_context((folder / TAG).open("r+b"))
        if not try_lock(tag.fileno()) and not users:
            return "a program that Provision started"
    return users


def _users(folder: Path) -> str:
    """Return the programs that run from a folder, as Linux tells; other users' only in part."""
    place = os.path.realpath(folder) + os.sep
    users = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            if any(path.startswith(place) for path in _paths(process)):
                users.append(f"{_program(process).name} (process {process.name})")
    return ", ".join(users)


def _paths(process: Path) -> Iterator[str]:
    """Yield a process's working folder, its program as it was found, its mapped files."""
    where = (process / "cwd").readlink()
    program = _program(process)
    yield str(where) + os.sep
    # Not `exe`: the Python of a virtual environment is a link to one outside.
    if len(program.parts) == 1:
        path = _search_path(process)
        program = Path(shutil.which(str(program), path=path) or program)
    yield os.path.realpath(where / program.parent) + os.sep
    for line in _text(process / "maps").splitlines():
        yield line[line.find("/") :]


def _search_path(process: Path) -> str:
    for variable in _text(process / "environ").split("\0"):
        if variable.startswith("PATH="):
            return variable.removeprefix("PATH=")
    return ""


def _program(process: Path) -> Path:
    return Path(_text(process / "cmdline").partition("\0")[0])


def _text(file: Path) -> str:
    return os.fsdecode(file.read_bytes())
