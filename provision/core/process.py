"""The only module that starts processes: echo, time-outs, process groups, ends together."""

import contextlib
import logging
import math
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
    "kill_group",
    "run",
    "start",
]
log = logging.getLogger(__name__)
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
        return "\n".join(
            (self.stderr.strip() or self.stdout.strip()).splitlines()[-12:]
        )

    def require(self, what: str, *, remedy: str = "") -> Self:
        """Return self if the process succeeded."""
        if self.returncode == 0:
            return self
        # Its options are internal, and in the log of --debug.
        words = [Path(self.argv[0]).name, *takewhile(str.isalpha, self.argv[1:])]
        cause = f"`{' '.join(words)}` ended with {describe_exit(self.returncode)}"
        if words[0].startswith("uv") and _UNREACHED.search(self.stderr):
            remedy = (
                "check the network, or set pip's index-url to a mirror that answers"
            )
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
    with _given(stdin) as given, os_errors("not-started", program=words[0]):
        process = subprocess.Popen(
            words,
            env=dict(clean_environment() if env is None else env),
            cwd=cwd,
            stdin=given,
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
    except subprocess.TimeoutExpired as error:
        kill_group(process)
        raise ToolError(
            f"`{shlex.join(words)}` did not end within {timeout:g} s",
            cause="it hangs or is slow",
        ) from error
    except BaseException:
        kill_group(process)
        raise
    finally:
        _running.discard(process)
    return Completed(
        words, process.returncode, stdout, stderr or "", time.monotonic() - started
    )


@contextlib.contextmanager
def _given(text: str | None) -> Iterator[IO[str] | int]:
    # A file: the rest of what a pipe did not take would be lost when a wait for its reader ends.
    if text is None:
        yield subprocess.DEVNULL  # a child's child may read its standard input
        return
    from tempfile import TemporaryFile  # noqa: PLC0415 - of few calls

    with TemporaryFile("w+", encoding="utf-8") as file:
        file.write(text)
        file.seek(0)
        yield file


def _communicate(
    process: subprocess.Popen[str], timeout: float | None
) -> tuple[str, str | None]:
    until = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        check_interrupted()
        try:
            return process.communicate(
                timeout=min(STEP, max(0, until - time.monotonic()))
            )
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until:
                raise


def become(argv: list[str], *, env: Mapping[str, str]) -> int:
    """Become a program: it keeps the process id, the terminal and the inherited descriptors."""
    # Windows has no such call: there the program is waited for, and its exit code returned.
    log.info("+ %s", redact(shlex.join(argv)))
    if (program := _found(argv[0], env)) is None:
        raise _cannot_start(
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
        raise _cannot_start(
            argv[0], Exit.NOT_EXECUTABLE, f"{program}: {error.strerror}"
        ) from error


def _cannot_start(program: str, code: Exit, evidence: str) -> UsageError:
    kind = "no-such-program" if code == Exit.NOT_FOUND else "not-executable"
    error = UsageError.of(kind, evidence, program=program)
    error.exit_code = code
    if Path(program).is_file() and (program.endswith(".py") or code == Exit.NOT_FOUND):
        words = ["python", program] if program.endswith(".py") else [f"./{program}"]
        error.remedy = f"did you mean `{shlex.join(words)}`?"
    return error


def _wait_for(argv: Sequence[str], env: Mapping[str, str]) -> int:
    with subprocess.Popen(argv, env=dict(env)) as process:
        while True:
            try:
                code = process.wait()
            except (
                KeyboardInterrupt
            ):  # the console sent it to the program too, which decides
                continue
            # sys.exit() takes the signed number of an NTSTATUS such as 0xC0000005.
            return code - (1 << 32) if code >= 1 << 31 else code


def start(argv: list[str], *, merged: bool) -> subprocess.Popen[bytes]:
    """Start a program with this process's input, and its output and errors in pipes, or in one."""
    if (program := _found(argv[0], os.environ)) is None:
        raise _cannot_start(argv[0], Exit.NOT_FOUND, "it is not on PATH")
    pipe, words = subprocess.PIPE, [program, *argv[1:]]
    errors = subprocess.STDOUT if merged else pipe
    try:
        return subprocess.Popen(words, stdout=pipe, stderr=errors, bufsize=0)
    except OSError as error:
        raise _cannot_start(
            argv[0], Exit.NOT_EXECUTABLE, f"{program}: {error.strerror}"
        ) from error


def _found(program: str, env: Mapping[str, str]) -> str | None:
    """Return a program as PATH finds it; CreateProcess would take the toolkit's own `python`."""
    if os.path.dirname(program):  # noqa: PTH120 - pathlib would drop the "./" that it looks for
        return program if os.path.lexists(program) else None
    folders = [folder for folder in env.get("PATH", "").split(os.pathsep) if folder]
    endings = (
        [*env.get("PATHEXT", ".EXE").split(";"), ""]
        if sys.platform == "win32"
        else [""]
    )
    paths = [
        Path(folder, f"{program}{ending}") for folder in folders for ending in endings
    ]
    files = [str(path) for path in paths if path.is_file()]
    return next(
        (path for path in files if os.access(path, os.X_OK)), next(iter(files), None)
    )


def interrupt() -> bool:
    """End everything that :func:`run` started, as :func:`interruption.interrupt` ends threads."""
    # Ctrl-C reaches the main thread alone, and not the processes, which have sessions of their own.
    raises = interruption.interrupt()
    for process in tuple(_running):
        _signal_group(process)
    return raises


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a process started by :func:`run` together with everything it started."""
    _signal_group(process)
    process.communicate()  # reap it, and close its pipes


def _signal_group(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        argv = [
            "taskkill",
            "/F",
            "/T",
            "/PID",
            str(process.pid),
        ]  # part of every Windows
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
    if (
        code >= 0xC0000000
    ):  # an NTSTATUS error, such as 0xC0000005 for an access violation
        return f"Windows exception {code:#010x}"
    return f"exit code {code}"
