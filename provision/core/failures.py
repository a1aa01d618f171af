"""What the system, the memory or Provision itself raises, as an error in four parts."""

import errno
import traceback
from pathlib import Path

from provision.core.errors import ProvisionError, SpecError, ToolError

_RIGHTS = "check the owner and the rights of the file and of the folders above it"
_LIMIT = "raise the limit (`ulimit -a` shows it), or end other programs"
_NO_LOCKS = "the file system supports no locks: put .envs on a local disk, with a symbolic link"
_MEMORY = "end other programs, or use a machine with more memory"
_REMEDIES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ENOENT: "restore it, from version control if it belongs to the project",
    errno.ENOSPC: "free some space",
    errno.EROFS: "mount the file system writable, or work in another folder",
    errno.EIO: "the disk may be failing: look at the system's log",
    errno.ELOOP: "its links lead in a circle: remove them",
    errno.EMFILE: _LIMIT,
    errno.EAGAIN: _LIMIT,
    errno.ENOMEM: _MEMORY,
    errno.ENOLCK: _NO_LOCKS,
    errno.EOPNOTSUPP: _NO_LOCKS,
}


def as_error(error: Exception) -> ProvisionError:
    """Return any exception as an error for people."""
    evidence = f"{type(error).__name__}: {error}"
    if isinstance(error, ProvisionError):
        return error
    if isinstance(error, OSError):
        names = " and ".join(str(n) for n in (error.filename, error.filename2) if n is not None)
        what = f"cannot read or write {names}" if names else "the system refused what was needed"
        remedy = _REMEDIES.get(error.errno or 0, "check it, and try again")
        return ToolError(what, evidence=error.strerror or evidence, remedy=remedy)
    if isinstance(error, MemoryError):
        return ToolError("the memory is used up", remedy=_MEMORY)
    if isinstance(error, RecursionError):
        remedy = "restore the files of the project from version control"
        return SpecError("a file is nested too deeply", evidence=evidence, remedy=remedy)
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return ToolError("the system starts no more threads", evidence=evidence, remedy=_LIMIT)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "provision" in Path(frame.filename).parts] or frames
    cause = f"a fault in {own[-1].filename}, line {own[-1].lineno}" if own else ""
    remedy = "the same command with --debug shows where; please report that"
    return ToolError("Provision itself failed", evidence=evidence, cause=cause, remedy=remedy)
