"""Read from uv how many bytes of each file it has fetched, which it tells a terminal only."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from provision.core.interruption import deferred
from provision.core.process import Completed, Run

# As uv 0.13 draws: this line, then one per file, such as "torch  ----  12.34 MiB/175.09 MiB".
_FRAME = "Preparing packages..."
_BAR = re.compile(r"([\w.-]+) +-+ +([\d.]+) ([KMG]?)i?B/")
# What is no message: both of these, and a wheel of dots that turns while uv resolves.
_DRAWN = re.compile(rf"{re.escape(_FRAME)}|{_BAR.pattern}|^\s*[\u2800-\u28ff]")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_KEPT = 1 << 16  # characters of what it printed
_SIZE = (1000, 120)  # rows and columns; uv leaves out what has no room


def run_in_terminal(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    stdin: str,
    run: Run,
    sizes: Mapping[str, int],
    arrived: dict[str, tuple[int, int]],
) -> Completed:
    """Run uv in its own terminal, where the system has any.

    Args:
        argv: The command.
        env: Its environment.
        stdin: What it reads.
        run: What runs it.
        sizes: Bytes of each file that it may fetch, by the name of the distribution.
        arrived: Gets the bytes of each file that are here, and in all.
    """
    if sys.platform == "win32":
        return run(argv, env=env, stdin=stdin)
    import termios  # noqa: PLC0415 - Windows has none

    try:
        reader, writer = os.openpty()
    except OSError:  # no /dev/pts
        return run(argv, env=env, stdin=stdin)
    termios.tcsetwinsize(writer, _SIZE)
    with deferred(), ThreadPoolExecutor(1) as pool:  # uv would wait for a reader
        printed = pool.submit(_read_bars, reader, sizes, arrived)
        plain = {**env, "NO_COLOR": "1", "TERM": "xterm"}
        try:
            finished = run(argv, env=plain, stdin=stdin, errors=writer)
        finally:
            os.close(writer)
    os.close(reader)
    return replace(finished, stderr=printed.result())


def _read_bars(
    terminal: int, sizes: Mapping[str, int], arrived: dict[str, tuple[int, int]]
) -> str:
    """Take note of the bytes that uv draws, and return what else it has printed."""
    text = ""
    with suppress(OSError):  # EIO: uv has ended
        while piece := os.read(terminal, 1 << 16).decode(errors="replace"):
            text = (text + piece)[-_KEPT:]
            last_whole = ["", *text.split(_FRAME)][-2]
            drawn = {}
            for name, number, unit in _BAR.findall(last_whole):
                drawn[name] = int(float(number) * _UNITS[unit])
            for name, size in sizes.items():
                if name in drawn:
                    arrived[name] = drawn[name], size
                elif name in arrived:  # a bar that is gone is that of a whole file
                    arrived[name] = size, size
    lines = []
    for line in _STEERING.sub("", text).splitlines():
        if line.strip() and not _DRAWN.search(line):
            lines.append(line.rstrip())
    return "\n".join(lines)
