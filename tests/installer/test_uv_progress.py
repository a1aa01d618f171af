"""What uv draws in its terminal is progress; all else that it prints is a message."""

from __future__ import annotations

import os
import sys

import pytest

from provision.core.process import Completed
from provision.installer.uv_progress import run_in_terminal

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="uv tells nothing there"
)
DRAWN = (
    "⠋ Resolving dependencies...\r\x1b[2K⠙ Resolving dependencies...\r\n"
    "Preparing packages... (0/1)\r\ntorch   ------  12.50 MiB/25.00 MiB\r\n"
    "Preparing packages... (0/1)\r\n"
    "error: no wheel of torch\r\n  cause: it is gone\r\n"
)


@pytest.mark.machine
def test_bars_are_bytes_and_no_part_of_the_message() -> None:
    def run(argv: list[str], *, errors: int, **_: object) -> Completed:
        os.write(errors, DRAWN.encode())
        return Completed(tuple(argv), 1, "", "", 0.1)

    arrived = dict[str, tuple[int, int]]()
    done = run_in_terminal(
        ["uv"], env={}, stdin="", run=run, sizes={"torch": 25 << 20}, arrived=arrived
    )
    assert done.stderr == "error: no wheel of torch\n  cause: it is gone"
    assert arrived == {"torch": (12.5 * (1 << 20), 25 << 20)}
