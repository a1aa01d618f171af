"""SHA-256 of a whole tree of files, on all cores."""

import functools
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from provision.core import hashing
from provision.core.errors import ToolError
from provision.core.filesystem import extended
from provision.core.interruption import in_threads
from provision.core.process import run

_WORTH_A_PROCESS = 16_000_000  # bytes; for less, starting one takes longer


def sha256_below(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the SHA-256 of many files below a folder, hashed on all cores."""
    # By processes, with strings for paths: for the 20,000 small files of a PyTorch environment the
    # interpreter takes longer than the hashing (measured: threads gain nothing).
    names = sorted(sizes, key=sizes.__getitem__, reverse=True)
    workers = os.cpu_count() or 1
    # Several shares per worker, so that one slow share does not decide when all are done.
    count = min(workers * 2, len(names), sum(sizes.values()) // _WORTH_A_PROCESS)
    if workers == 1 or count < 2:
        return _sha256_share(str(folder), names)
    # Largest first, dealt out in turn, so that each share has its part of the largest libraries.
    shares = [names[start::count] for start in range(count)]
    function = functools.partial(_share_by_process, str(folder))
    hashes: dict[str, str] = {}
    try:
        # Not by a pool of processes: where one of them dies, or the command is interrupted, it
        # waits for the others, in Python 3.11 for ever.
        for part in in_threads(function, shares, workers):
            hashes |= part
    except (ToolError, OSError, RuntimeError):
        # The system gives no process or thread, or killed one for lack of memory. What cannot be
        # read fails here again, and names the file.
        return _sha256_share(str(folder), names)
    return hashes


def _share_by_process(folder: str, names: list[str]) -> dict[str, str]:
    paths = [extended(f"{folder}/{name}") for name in names]
    program = [sys.executable, "-I", "-S", hashing.__file__]
    done = run(program, stdin=json.dumps(paths)).require("could not hash files")
    return dict(zip(names, json.loads(done.stdout), strict=True))


def _sha256_share(folder: str, names: list[str]) -> dict[str, str]:
    return {name: hashing.sha256_file(extended(f"{folder}/{name}")) for name in names}
