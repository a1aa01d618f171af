"""What the system, the memory or Provision itself raises, as an error in four parts."""

import errno
import traceback
from pathlib import Path

from provision.core.errors import ProvisionError, SpecError, ToolError

_MEMORY = "end other programs, or use a machine with more memory"
_LIMIT = "raise the limit (`ulimit -a` shows it), or end other programs"
_RIGHTS = "check the owner and the rights of the file and of the folders above it"
_LOCKS = (
    "the file system supports no locks: put .envs on a local disk, with a symbolic link"
)
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
    errno.ENOLCK: _LOCKS,
    errno.EOPNOTSUPP: _LOCKS,
}


def as_error(error: Exception) -> ProvisionError:
    """Return any exception as an error for people."""
    if isinstance(error, ProvisionError):
        return error
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, MemoryError) or _is_unmappable(error):
        return ToolError("the memory is used up", remedy=_MEMORY)
    evidence = f"{type(error).__name__}: {error}"
    if isinstance(error, RecursionError):
        return SpecError(
            "a file is nested too deeply",
            evidence=evidence,
            remedy="restore the files of the project from version control",
        )
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return ToolError(
            "the system starts no more threads", evidence=evidence, remedy=_LIMIT
        )
    cause = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not cause or "provision" in Path(frame.filename).parts:
            cause = f"an error in {frame.filename}, line {frame.lineno}"
    remedy = "the same command with --debug shows where; please report that"
    return ToolError(
        "Provision itself failed", evidence=evidence, cause=cause, remedy=remedy
    )


def _of_system(error: OSError) -> ToolError:
    names = list(map(str, filter(None, (error.filename, error.filename2))))
    what = "the system refused what was needed"
    if names:
        what = f"cannot read or write {' and '.join(names)}"
    remedy = _REMEDIES.get(error.errno or 0, "check it, and try again")
    evidence = error.strerror or f"{type(error).__name__}: {error}"
    return ToolError(what, evidence=evidence, remedy=remedy)


def _is_unmappable(error: Exception) -> bool:
    """Whether a library did not fit into the memory that this process may have.

    The loader names a reason where there is another one, as a folder from which nothing may run.
    """
    words = ("failed to map segment from shared object", "Cannot allocate memory")
    return isinstance(error, ImportError) and str(error).endswith(words)
