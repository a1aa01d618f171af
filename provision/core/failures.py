"""What the system, the memory or Provision itself raises, as an error in four parts."""

import errno
import traceback
from pathlib import Path

from provision.core.errors import ProvisionError, SpecError, ToolError
from provision.core.findings import toml_table

_TABLE = toml_table(Path(__file__).with_suffix(".toml"))
_REMEDIES = {
    getattr(errno, name): remedy for remedy, names in _TABLE.items() for name in names
}


def as_error(error: Exception) -> ProvisionError:
    """Return any exception as an error for people."""
    evidence = f"{type(error).__name__}: {error}"
    if isinstance(error, ProvisionError):
        return error
    if isinstance(error, OSError):
        names = " and ".join(
            str(n) for n in (error.filename, error.filename2) if n is not None
        )
        what = (
            f"cannot read or write {names}"
            if names
            else "the system refused what was needed"
        )
        remedy = _REMEDIES.get(error.errno or 0, "check it, and try again")
        return ToolError(what, evidence=error.strerror or evidence, remedy=remedy)
    if isinstance(error, MemoryError) or _is_unmappable(error):
        return ToolError("the memory is used up", remedy=_REMEDIES[errno.ENOMEM])
    if isinstance(error, RecursionError):
        return SpecError(
            "a file is nested too deeply",
            evidence=evidence,
            remedy="restore the files of the project from version control",
        )
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        remedy = _REMEDIES[errno.EAGAIN]
        return ToolError(
            "the system starts no more threads", evidence=evidence, remedy=remedy
        )
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames if "provision" in Path(frame.filename).parts
    ] or frames
    cause = f"a fault in {own[-1].filename}, line {own[-1].lineno}" if own else ""
    remedy = "the same command with --debug shows where; please report that"
    return ToolError(
        "Provision itself failed", evidence=evidence, cause=cause, remedy=remedy
    )


def _is_unmappable(error: Exception) -> bool:
    """Return whether a library did not fit into the memory that this process may have.

    The loader names a reason where there is another one, as a folder from which nothing may run.
    """
    words = ("failed to map segment from shared object", "Cannot allocate memory")
    return isinstance(error, ImportError) and str(error).endswith(words)
