"""Errors in four parts: what failed, the evidence, the cause, the remedy."""

import contextlib
from collections.abc import Iterator
from enum import IntEnum

from provision.core.privacy import redact


class Exit(IntEnum):
    """Exit codes of every verb; `run` ends with its program's, or as a shell where it has none."""

    OK = 0  # nothing to report
    FINDINGS = 1  # checks failed, files differ, or something was found
    USAGE = 2  # the command line, a spec or a lock has an error
    TOOL = 3  # a tool, the disk or the network failed
    PROGRAM = 4  # `doctor --log`: an error of the program itself
    UNDECIDED = 5  # `doctor --log`: not recognised
    SLOWER = 6  # `smoke`: every check passed, and a speed fell below what is usual here
    NOT_EXECUTABLE = 126  # `run`: the program cannot be started
    NOT_FOUND = 127  # `run`: there is no such program
    INTERRUPTED = 130  # Ctrl-C, SIGTERM


class ProvisionError(Exception):
    """Anything that stops a verb; rendered without a traceback unless ``--debug`` is given."""

    exit_code = Exit.TOOL

    def __init__(
        self, what: str, *, evidence: str = "", cause: str = "", remedy: str = ""
    ) -> None:
        # Tools print addresses, and commands hold them: a mirror's password must not be shown.
        self.what = redact(what)
        self.evidence = redact(evidence)
        self.cause = redact(cause)
        self.remedy = redact(remedy)
        super().__init__(self.what)


class UsageError(ProvisionError):
    """The command line names something that does not exist, or options that exclude each other."""

    exit_code = Exit.USAGE


class SpecError(ProvisionError):
    """A spec, a catalog or a lock cannot be read, or its parts contradict each other."""

    exit_code = Exit.USAGE


class ToolError(ProvisionError):
    """A tool that Provision calls, the disk or the network failed."""


@contextlib.contextmanager
def os_errors(what: str, remedy: str, cause: str = "") -> Iterator[None]:
    """Raise what the system refuses in the block as a ToolError."""
    try:
        yield
    except OSError as error:
        raise ToolError(
            what, evidence=str(error), cause=cause, remedy=remedy
        ) from error


@contextlib.contextmanager
def damage_in(file: object, remedy: str) -> Iterator[None]:
    """Raise what the block cannot read or does not find in a file as a SpecError."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        evidence = str(error)
        if type(error) is not ValueError:  # whose text is a sentence
            evidence = f"{type(error).__name__}: {error}"
        raise SpecError(
            f"cannot read {file}", evidence=evidence, remedy=remedy
        ) from error
