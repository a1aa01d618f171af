"""The only module that starts processes: echo, time-outs, process groups, ends together."""

import contextlib
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Self

from provision.core import interruption
from provision.core.errors import Exit, ToolError, UsageError, os_errors
from provision.core.interruption import STEP, check_interrupted, deferred
from provision.core.prefix import environment_python
from provision.core.privacy import redact
from provision.core.variables import clean_environment

__all__ = [
    "Completed",
    "Run",
    "become",
    "clean_environment",
    "describe_exit",
    "environment_python",
    "interrupt",
    "run",
]
log = logging.getLogger(__name__)
_OFFLINE = "check the network, or set pip's index-url to a mirror that answers"
_UNREACHED = re.compile("(?i)failed to fetch|connect|dns|timed out|network")
_running: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished process."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def tail(self) -> str:
        """The last lines that it printed, as evidence."""
        text = self.stderr.strip() or self.stdout.strip()
        return "\n".join(text.splitlines()[-12:])

    def require(self, what: str, *, remedy: str = "", offline: str = _OFFLINE) -> Self:
        """Return self if the process succeeded; ``offline``: the remedy where uv reached no server."""
        if self.returncode == 0:
            return self
        # Its options are internal, and in the log of --debug.
        program = Path(self.argv[0]).name
        command = " ".join([program, *takewhile(str.isalpha, self.argv[1:])])
        cause = f"`{command}` ended with {describe_exit(self.returncode)}"
        if program.startswith("uv") and _UNREACHED.search(self.stderr):
            remedy = offline
        raise ToolError(what, evidence=self.tail, cause=cause, remedy=remedy)


Run = Callable[..., Completed]  # :func:`run`, for functions that take it as an argument


@deferred()  # which raises at the end, too: what was killed has no result
def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
    stdin: str | None = None,
    errors: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Completed:
    """Run a command to its end and return what it printed; ``errors`` takes its standard error."""
    # Its process group is killed on a time-out and any exception: children of uv and pytest would
    # go on writing into a folder that the caller is about to remove.
    words = tuple(str(word) for word in argv)
    log.info("+ %s", redact(shlex.join(words)))
    check_interrupted()
    started = time.monotonic()
    not_started = os_errors(
        f"could not start `{words[0]}`", "check that it is installed"
    )
    with _input(stdin) as source, not_started:
        process = subprocess.Popen(
            words,
            env=dict(clean_environment() if env is None else env),
            cwd=cwd,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors is None else errors,
            encoding="utf-8",
            errors="replace",
            start_new_session=os.name == "posix",
            pass_fds=pass_fds if os.name == "posix" else (),
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    _running.add(process)
    try:
        stdout, stderr = _communicate(process, timeout)
    except BaseException as error:
        _kill_group(process)
        process.communicate()  # reap it, and close its pipes
        if isinstance(error, subprocess.TimeoutExpired):
            raise ToolError(
                f"`{shlex.join(words)}` did not end within {timeout:g} s",
                cause="it hangs or is slow",
            ) from error
        raise
    finally:
        _running.discard(process)
    return Completed(
        words, process.returncode, stdout, stderr or "", time.monotonic() - started
    )


@contextlib.contextmanager
def _input(text: str | None) -> Iterator[IO[str] | int]:
    # A file: the rest of what a pipe did not take would be lost when a wait for its reader ends.
    if text is None:
        yield subprocess.DEVNULL  # a child's child may read its standard input
        return
    with TemporaryFile("w+", encoding="utf-8") as file:
        file.write(text)
        file.seek(0)
        yield file


def _communicate(
    process: subprocess.Popen[str], timeout: float | None
) -> tuple[str, str | None]:
    started = time.monotonic()
    while True:
        check_interrupted()
        try:
            return process.communicate(timeout=STEP)
        except subprocess.TimeoutExpired:
            if timeout is not None and time.monotonic() - started >= timeout:
                raise


def become(argv: list[str], *, env: Mapping[str, str]) -> int:
    """Become a program: it keeps the process id, the terminal and the inherited descriptors."""
    # Windows has no such call: there the program is waited for, and its exit code returned.
    log.info("+ %s", redact(shlex.join(argv)))
    program = find_program(argv[0], env)
    if program is None:
        raise _CannotStartError(
            argv[0], Exit.NOT_FOUND, "it is neither in the environment nor on PATH"
        )
    try:
        if sys.platform == "win32":
            return _wait_for([program, *argv[1:]], env)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # Python ignores these, and an ignored signal stays so: `… | head` would not end a program.
        for name in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(name, signal.SIG_DFL)
        os.execve(program, argv, env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise _CannotStartError(
            argv[0], Exit.NOT_EXECUTABLE, f"{program}: {error.strerror}"
        ) from error


class _CannotStartError(UsageError):
    """A user's program that is not there or cannot be executed."""

    def __init__(self, program: str, code: Exit, cause: str) -> None:
        remedy = "check its name, its permissions and its first line"
        if program.endswith(".py") and Path(program).is_file():
            remedy = f"did you mean `{shlex.join(['python', program])}`?"
        super().__init__(f"cannot start `{program}`", cause=cause, remedy=remedy)
        self.exit_code = code


def _wait_for(argv: Sequence[str], env: Mapping[str, str]) -> int:
    with subprocess.Popen(argv, env=dict(env)) as process:
        while True:
            try:
                code = process.wait()
            # The console sent it to the program too, which decides.
            except KeyboardInterrupt:
                continue
            # sys.exit() takes the signed number of an NTSTATUS such as 0xC0000005.
            return code - (1 << 32) if code >= 1 << 31 else code


def find_program(program: str, env: Mapping[str, str]) -> str | None:
    """Return a program as PATH finds it; CreateProcess would take the toolkit's own `python`."""
    if os.path.dirname(program):  # noqa: PTH120 - pathlib would drop the "./" that it looks for
        return program if os.path.lexists(program) else None
    endings = [""]
    if sys.platform == "win32":
        endings = [*env.get("PATHEXT", ".EXE").split(";"), ""]
    unusable = None
    for folder in filter(None, env.get("PATH", "").split(os.pathsep)):
        for ending in endings:
            path = os.path.join(folder, program + ending)  # noqa: PTH118 - as typed
            if os.path.isfile(path):  # noqa: PTH113
                if os.access(path, os.X_OK):
                    return path
                unusable = unusable or path  # tried last: then the system says why
    return unusable


def interrupt() -> bool:
    """End everything that :func:`run` started, as :func:`interruption.interrupt` ends threads."""
    # Ctrl-C reaches the main thread alone, and not the processes, which have sessions of their own.
    raises = interruption.interrupt()
    for process in tuple(_running):
        _kill_group(process)
    return raises


def _kill_group(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        argv = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(argv, capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """Return an exit status in words: a code, a signal, or a Windows exception."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
        return f"signal {-code}"
    # An NTSTATUS error, such as 0xC0000005 for an access violation.
    if code >= 0xC0000000:
        return f"Windows exception {code:#010x}"
    return f"exit code {code}"
