"""A command that ends by ``kill -9`` before its n-th change of a file, or start of a program.

It is a fork of the process of the tests, so that nothing is loaded anew; what it does until then,
and which files it changes, is the same each time.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING

from provision.cli.main import main
from tests.lab import descendants

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CHANGES = {
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.truncate",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Killer:
    """Counts what changes files below a folder, and kills this process at a number; -1: never."""

    def __init__(self, root: Path, at: int, *, alone: bool) -> None:
        self.root, self.at, self.alone = str(root), at, alone
        self.seen = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if not (event == "subprocess.Popen" or self._changes(event, arguments)):
            return
        if self.seen == self.at:
            for pid in [] if self.alone else descendants(os.getpid()):
                os.kill(pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += 1

    def _changes(self, event: str, arguments: tuple[object, ...]) -> bool:
        if event == "open":
            _, _, flags = arguments
            changes = isinstance(flags, int) and bool(flags & _WRITING)
        else:
            changes = event in CHANGES
        names = [os.fspath(a) for a in arguments if isinstance(a, (str, os.PathLike))]
        return changes and any(str(name).startswith(self.root) for name in names)


def run_killed(words: Sequence[str], root: Path, at: int = -1, *, alone: bool) -> int:
    """Run a command that is killed at a number; return how many changes it made, -1 if killed."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of Python 3.12: there are threads
        child = os.fork()
    if child == 0:
        _become(words, Killer(root, at, alone=alone), writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return int(said) if said else -1


def _become(words: Sequence[str], killer: Killer, writer: int) -> None:
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.addaudithook(killer)
        main(list(words))
        os.write(writer, str(killer.seen).encode())
    finally:
        os._exit(0)
