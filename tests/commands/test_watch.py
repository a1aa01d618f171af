"""``doctor --watch``: a program keeps its streams, terminal, signals and exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from provision.commands.watch import _with_ending

pytestmark = pytest.mark.machine
FAILS = (
    "import sys; print('out', sys.stdout.isatty(), flush=True); print('err', file=sys.stderr);"
    "raise ImportError('libcudnn.so.9: cannot open shared object file: No such file or directory')"
)
CODE = b"[cuda-library-mismatch]"
WATCH = [sys.executable, "-m", "provision", "doctor", "--watch", "--"]


def watch(*command: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*WATCH, *command],
        capture_output=True,
        timeout=60,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def test_a_failure_is_passed_on_and_explained() -> None:
    done = watch(*python(FAILS))
    assert done.returncode == 1
    assert done.stdout == b"out False\n"  # and nothing of the explanation
    assert done.stderr.startswith(b"err\nTraceback")
    assert CODE in done.stderr


def test_a_success_says_nothing_more() -> None:
    done = watch(*python(FAILS.partition("raise")[0]))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out False\n", b"err\n")


def test_bytes_are_passed_on_unchanged() -> None:
    code = "import os; os.write(1, bytes(range(256)) * 20_000)"
    assert watch(*python(code)).stdout == bytes(range(256)) * 20_000


def test_what_is_typed_reaches_the_program() -> None:
    assert watch(*python("print(input())"), input=b"typed\n").stdout == b"typed\n"


def test_output_comes_as_it_is_printed() -> None:
    code = "print('now', flush=True); input()"
    with subprocess.Popen(
        [*WATCH, *python(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"now\n"  # while the program waits
        process.stdin.write(b"\n")


def test_one_stream_for_both_keeps_their_order() -> None:
    code = "import os; [os.write(1 + n % 2, b'%d\\n' % n) for n in range(2000)]"
    done = subprocess.run(
        [*WATCH, *python(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    assert done.stdout == b"".join(b"%d\n" % n for n in range(2000))


def test_what_cannot_be_started_is_named() -> None:
    done = watch("no-such-program")
    assert done.returncode == 127
    assert b"cannot start `no-such-program`" in done.stderr
    assert b"verify" not in done.stderr  # there may be no environment


@pytest.mark.parametrize(
    "words", [("--watch",), ("--", "true"), ("--json", "--watch", "--", "true")]
)
def test_a_command_belongs_to_watch(words: tuple[str, ...]) -> None:
    argv = [sys.executable, "-m", "provision", "doctor", *words]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"--watch" in done.stderr


posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals of POSIX")


@posix
def test_a_signal_ends_as_a_shell_sees_it() -> None:
    assert watch("sh", "-c", "kill -SEGV $$").returncode == 128 + signal.SIGSEGV


@posix
def test_a_signal_reaches_the_program() -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7));"
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([*WATCH, *python(code)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(30) == 7


@posix
def test_a_reader_that_leaves_ends_the_program() -> None:
    code = "import itertools\nfor n in itertools.count(): print(n, flush=True)"
    process = subprocess.Popen(
        [*WATCH, *python(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert process.wait(30) != 0
    process.communicate()


@posix
def test_what_a_program_leaves_running_is_not_waited_for() -> None:
    started = time.monotonic()
    assert watch("sh", "-c", "sleep 50 & echo done").stdout == b"done\n"
    assert time.monotonic() - started < 40


def test_what_is_too_long_to_be_explained_keeps_its_exit_code() -> None:
    code = "print('x' * 100_000, flush=True); raise SystemExit(9)"
    program = (
        "import sys; from provision.doctor import sampling; sampling.STREAM = 1000;"
        "from provision.commands.watch import watch; code, found = watch(sys.argv[1:]);"
        "assert [f.code for f in found] == ['ended-with-code']; sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *python(code)], capture_output=True, check=False
    )
    assert (done.returncode, len(done.stdout), done.stderr) == (9, 100_001, b"")


def test_a_slow_reader_gets_the_end() -> None:
    code = "print('x' * 100_000); print('end')"
    with subprocess.Popen([*WATCH, *python(code)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        time.sleep(3)  # longer than what left-over processes are waited for
        assert process.stdout.read().split() == [b"x" * 100_000, b"end"]


@posix
def test_in_a_terminal_the_program_has_one_too(tmp_path: Path) -> None:
    import fcntl
    import pty
    import struct
    import termios

    code = "import os, sys; print(sys.stdout.isatty(), sys.stderr.isatty(), os.get_terminal_size(1))"
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    log = tmp_path / "log"
    process = subprocess.Popen(
        [*WATCH, *python(code)], stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    with contextlib.suppress(OSError), log.open("wb") as stream:
        while piece := os.read(outer, 1000):
            stream.write(piece)
    assert process.wait(30) == 0
    assert log.read_bytes() == b"True True os.terminal_size(columns=77, lines=33)\r\n"


def in_terminal(
    code: str, answer: object = None, stdin: Path | None = None
) -> tuple[int, bytes]:
    """Run a program in a terminal; what it prints "ready" to is answered by bytes or a signal."""
    import pty

    child, terminal = pty.fork()
    if child == 0:
        if stdin:
            os.dup2(os.open(stdin, os.O_RDONLY), 0)
        os.execv(sys.executable, [*WATCH, *python(code)])  # noqa: S606 - no shell is wanted
    seen = b""
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 1000):
            seen += piece
            if b"ready" in piece and isinstance(answer, bytes):
                os.write(terminal, answer)
            elif b"ready" in piece and isinstance(answer, int):
                os.kill(child, answer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen


@posix
def test_in_a_terminal_a_signal_reaches_the_program() -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7));"
        "print('ready', flush=True); time.sleep(60)"
    )
    assert in_terminal(code, signal.SIGTERM)[0] == 7


@posix
def test_a_file_as_input_ends_in_a_terminal_too(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("typed\n")
    code = "import sys; print(sys.stdin.read(), sys.stdin.read())"
    assert in_terminal(code, stdin=tmp_path / "in") == (0, b"typed\r\n \r\n")


@posix
def test_in_a_terminal_a_pipe_that_nobody_reads_ends_its_writer() -> None:
    code = "import subprocess; print(subprocess.call('yes | head -1', shell=True))"
    assert in_terminal(code) == (0, b"y\r\n0\r\n")


@posix
def test_ctrl_c_is_the_programs_alone() -> None:
    """The terminal sends it to the whole group: the program gets it once, and decides."""
    code = (
        "import os, signal, sys, time\n"
        # Not print(): the signal may arrive within the other print(), which cannot be re-entered.
        "def stop(*_): os.write(1, b'stopped'); time.sleep(1); sys.exit(5)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    ended, seen = in_terminal(code, b"\x03")
    assert ended == 5, seen
    assert seen.count(b"stopped") == 1


ENDINGS = {
    "import ctypes; ctypes.string_at(0)": "SIGSEGV",
    "import os; os.kill(os.getpid(), 9)": "SIGKILL",
    "import os; os.abort()": "SIGABRT",
    "import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)": "SIGSEGV",
    "import os; os.kill(os.getpid(), 10)": "SIGUSR1",
    "raise SystemExit(137)": "SIGKILL",  # as a shell or a container reports it
}


@pytest.mark.skipif(sys.platform != "linux", reason="numbers of signals")
@pytest.mark.parametrize("code", ENDINGS)
def test_a_program_that_is_ended_by_a_signal_is_told_of(code: str) -> None:
    done = watch(*python(code))
    assert b"[ended-by-signal]" in done.stderr
    assert ENDINGS[code].encode() in done.stderr
    assert f"exit code {done.returncode}".encode() in done.stderr


def test_an_exit_code_alone_is_told_and_accuses_nobody() -> None:
    done = watch(*python("raise SystemExit(3)"))
    assert done.returncode == 3
    assert b"note: " in done.stderr
    assert b"[ended-with-code]" in done.stderr
    assert b"error" not in done.stderr
    explained = watch(*python(FAILS))
    assert b"[ended-with-code]" not in explained.stderr


def test_a_status_of_windows_is_named() -> None:
    (found,) = _with_ending(0xC0000005 - (1 << 32), [])
    assert "access violation" in found.symptom
    (found,) = _with_ending(1, [])
    assert not found.bad
