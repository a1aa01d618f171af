"""One of several processes of which some must end with others; `test_lifetime` starts them.

``relative.py PORT supervisor NAME``   starts the worker that it names
``relative.py PORT worker``   starts a rank and a stranger
``relative.py PORT portable``   a worker that uses nothing that only Linux has
``relative.py PORT stuck``   a worker in native code that never gives the interpreter's lock back
``relative.py PORT late``   a worker that asks to end with its parent when that has ended already
``relative.py PORT rank``   a process of the suite that a worker started
``relative.py PORT stranger``   knows nothing of the suite, as processes of torch's compiler do

Each connects to the port and says its name and its process id; the end of the connection is its
own end.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from smoke.engine import child_process, lifetime

CHILDREN = {
    "worker": ("rank", "stranger"),
    "portable": ("rank", "stranger"),
    "stuck": ("stranger",),
}
SECONDS = 300  # longer than any test waits


def main(port: str, name: str, *children: str) -> None:
    """Play one of them."""
    if name == "portable":
        sys.platform = "darwin"
    if name in ("worker", "portable", "stuck", "rank"):
        lifetime.end_with_parent()
    parent = os.getppid()
    connection = socket.create_connection(("127.0.0.1", int(port)))
    for child in children or CHILDREN.get(name, ()):
        argv = [sys.executable, "-I", __file__, port, child]
        if child == "stranger":
            subprocess.Popen(argv)
        else:
            with Path(os.devnull).open("wb") as output:
                child_process.start(argv, output, leader=name == "supervisor")
    connection.sendall(f"{name} {os.getpid()}\n".encode())
    if name == "late":
        while (
            os.getppid() == parent
        ):  # Windows ends it here: it never sees another parent
            time.sleep(0.01)
        lifetime.end_with_parent()
    if name == "stuck":
        hold_the_lock()
    time.sleep(SECONDS)


def hold_the_lock() -> None:
    """Sleep in native code; PyDLL, unlike CDLL, keeps the interpreter's lock meanwhile."""
    if sys.platform == "win32":
        ctypes.PyDLL("kernel32").Sleep(SECONDS * 1000)
    else:
        ctypes.PyDLL(None).sleep(SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
