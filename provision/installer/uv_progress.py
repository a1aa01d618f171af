"""The bytes that uv has fetched. It tells them in a terminal only, so it gets one of its own."""

import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path

from provision.core.process import Completed, Run
from provision.core.progress import Progress

# As uv 0.13 draws: this line, then one per file, such as "torch  ----  12.34 MiB/175.09 MiB".
_FRAME = "Preparing packages..."
_BAR = re.compile(r"([\w.-]+) +-+ +([\d.]+) ([KMG]?)i?B/")
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def run_uv(
    argv: Sequence[str | Path], sizes: Mapping[str, int], run: Run, progress: Progress,
    *, env: Mapping[str, str], stdin: str,
) -> Completed:  # fmt: skip
    """Run uv and report what it fetches of files of known sizes, by distribution.

    On Windows, which has no such terminals, nothing is reported.
    """
    if sys.platform == "win32" or not os.access("/dev/ptmx", os.W_OK):  # a container may lack it
        return run(argv, env=env, stdin=stdin)
    import termios  # noqa: PLC0415 - not on Windows

    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (1000, 120))  # what has no room is left out
    printed: list[str] = []
    # With the context, as the bytes belong to the step of this thread; uv would wait for a reader.
    arguments = (_read, reader, sizes, printed, progress)
    thread = threading.Thread(target=copy_context().run, args=arguments, daemon=True)
    thread.start()
    try:
        finished = run(
            argv, env={**env, "NO_COLOR": "1", "TERM": "xterm"}, stdin=stdin, errors=writer
        )
    finally:
        os.close(writer)
        thread.join()
        os.close(reader)
    lines = map(str.rstrip, _STEERING.sub("", "".join(printed)).splitlines())
    said = [line for line in lines if line and _FRAME not in line and not _BAR.search(line)]
    return replace(finished, stderr="\n".join(said))


def _read(terminal: int, sizes: Mapping[str, int], printed: list[str], progress: Progress) -> None:
    begun, rest = set[str](), ""
    with suppress(OSError):  # EIO: uv has ended
        while piece := os.read(terminal, 1 << 16).decode(errors="replace"):
            printed[:] = [*printed[-20:], piece]
            *frames, rest = (rest + piece).split(_FRAME)
            for frame in frames[-1:]:  # a bar that is gone is that of a whole file
                drawn = {name: float(n) * _UNITS[u] for name, n, u in _BAR.findall(frame)}
                begun |= drawn.keys() & sizes.keys()
                done = {name: int(drawn.get(name, sizes[name])) for name in begun}
                progress.show(files={name: (done[name], sizes[name]) for name in begun})
