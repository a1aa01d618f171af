"""``doctor --watch``: run a program, pass on what it prints, and explain why it failed."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from select import select
from typing import IO

from provision.core.errors import Exit
from provision.core.findings import Finding, described, toml_table
from provision.core.process import start
from provision.doctor import diagnose_log


def watch(command: list[str]) -> tuple[int, list[Finding]]:
    """Return a program's exit code, as a shell sees it, and the findings if it failed."""
    source, copy = os.pipe()
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(_diagnose, source)
        run = _in_terminal if all(map(os.isatty, range(3))) else _piped
        try:
            code = run(command, copy)
        finally:
            os.close(copy)
    code = 128 - code if code < 0 else code - (1 << 32) if code >= 1 << 31 else code
    return code, [] if code in (0, Exit.INTERRUPTED) else _with_ending(
        code, told.result()
    )


def _with_ending(code: int, told: list[Finding]) -> list[Finding]:
    """Return what the output told, and how the program ended where that explains nothing."""
    table, name = Path(__file__).with_suffix(".toml"), f"0x{code & 0xFFFFFFFF:08X}"
    with suppress(
        ValueError
    ):  # a shell or a launcher reports 128 + signal of what it started
        name = signal.Signals(code - 128).name
    case = name if name in toml_table(table) else "signal" if name[0] == "S" else "exit"
    explain = ("not-environment", "not-recognised" if case == "exit" else "")
    if any(f.level == "error" or f.code in explain for f in told):
        return told
    return [described(table, case, f"exit code {code}", name=name, number=code), *told]


def _diagnose(source: int) -> list[Finding]:
    # A program that printed more than can be read keeps its exit code, and is not explained.
    with suppress(OSError), os.fdopen(source, "rb", buffering=0) as stream:
        return diagnose_log(stream)
    return []


def _in_terminal(argv: list[str], copy: int) -> int:
    """Give the program a terminal of its own, for colours, progress bars and Ctrl-C."""
    if sys.platform == "win32":
        return _piped(argv, copy)
    import pty  # noqa: PLC0415 - these are not on Windows
    import termios  # noqa: PLC0415

    opened: list[int] = []

    def read(terminal: int) -> bytes:
        opened[:] = [terminal]
        piece = os.read(terminal, 1 << 16)
        with suppress(OSError):
            os.write(copy, piece)
        select(
            [], [1], []
        )  # spawn() drops what it could not write when the program ends
        return piece

    def handle(number: int, _: object) -> None:
        if number == signal.SIGTERM:
            os.killpg(os.tcgetpgrp(opened[0]), number) if opened else sys.exit(
                128 + number
            )
        for terminal in opened if number == signal.SIGWINCH else ():
            termios.tcsetwinsize(terminal, termios.tcgetwinsize(1))

    # SIGPIPE, which Python ignores, would be ignored in the program too.
    for name in (signal.SIGTERM, signal.SIGWINCH, signal.SIGPIPE):
        signal.signal(name, handle)
    sized = 'stty rows "$0" cols "$1"; shift; exec "$@"'  # before the program looks
    words = ["sh", "-c", sized, *map(str, termios.tcgetwinsize(1)), *argv]
    return os.waitstatus_to_exitcode(pty.spawn(words, read))


def _piped(argv: list[str], copy: int) -> int:
    process = start(argv, merged=os.path.sameopenfile(1, 2))
    # A terminal sends Ctrl-C to the program too, and Windows always does; it decides what follows.
    twice = (
        {"SIGINT"}
        if sys.platform == "win32" or any(map(os.isatty, range(3)))
        else set()
    )
    for name in {"SIGINT", "SIGTERM", "SIGHUP"} & {*signal.Signals.__members__}:
        forward = (
            (lambda *_: None) if name in twice else lambda n, _: process.send_signal(n)
        )
        signal.signal(signal.Signals[name], forward)
    writing = set[int]()

    def pass_on(source: IO[bytes], stream: int) -> None:
        with suppress(OSError), source:  # EPIPE: nobody reads on
            while piece := source.read(1 << 16):
                writing.add(stream)
                with suppress(OSError):
                    os.write(copy, piece)
                while piece := piece[os.write(stream, piece) :]:
                    pass
                writing.discard(stream)
        writing.discard(stream)

    pairs = [
        (source, n)
        for n, source in ((1, process.stdout), (2, process.stderr))
        if source
    ]
    threads = [
        threading.Thread(target=pass_on, args=pair, daemon=True) for pair in pairs
    ]
    for thread in threads:
        thread.start()
    # No wait without a limit: a signal that comes just before one is handled after it only.
    while (code := process.poll()) is None:
        time.sleep(0.05)
    quiet = 0
    # What it left running may hold its streams, and print no more; a slow reader is waited for.
    while quiet < 3 and (alive := [thread for thread in threads if thread.is_alive()]):
        alive[0].join(0.1)
        quiet = 0 if writing else quiet + 1
    return code
