"""SHA-256 of a whole tree of files, on all cores."""

import functools
import os
import signal
import threading
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import active_children, connection, parent_process
from pathlib import Path

from provision.core.filesystem import extended
from provision.core.hashing import sha256_file
from provision.core.interruption import check_interrupted, deferred, results

_WORTH_PROCESSES = 16_000_000  # bytes; for less, starting processes takes longer


def sha256_below(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the SHA-256 of many files below a folder, hashed on all cores."""
    # By processes, with strings for paths: for the 20,000 small files of a PyTorch environment the
    # interpreter takes longer than the hashing (measured: threads gain nothing).
    names = sorted(sizes, key=sizes.__getitem__, reverse=True)
    workers = os.cpu_count() or 1
    if workers == 1 or sum(sizes.values()) < _WORTH_PROCESSES:
        return _sha256_share(str(folder), names)
    # Largest first, dealt out in turn, so that each share has its part of the largest libraries;
    # several shares per worker, so that one slow share does not decide when all are done.
    count = workers * 8
    shares = [names[start::count] for start in range(count)]
    function = functools.partial(_sha256_share, str(folder))
    hashes: dict[str, str] = {}
    try:
        with (
            deferred(),
            ProcessPoolExecutor(workers, initializer=_end_with_parent) as pool,
        ):
            try:
                for part in results(pool, function, shares):
                    hashes |= part
            except (KeyboardInterrupt, BrokenExecutor):
                # They ignore the signal by which a pool ends them when it lost one, and it waits.
                _kill_workers()
                raise
    except (OSError, RuntimeError, ImportError):
        # The system gives no processes or semaphores (/dev/shm is read-only), or killed a worker
        # for lack of memory. What cannot be read fails here again, and names the file.
        _kill_workers()  # one that waits for work would be waited for at the end
        check_interrupted()
        return _sha256_share(str(folder), names)
    return hashes


def _kill_workers() -> None:
    for child in active_children():
        child.kill()


def _end_with_parent() -> None:
    """Make a worker exit when its parent is killed: it inherited the lock of the folder."""
    # A terminal, or `timeout`, sends them to the parent, too, which ends its workers.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)

    def wait() -> None:
        if parent := parent_process():
            connection.wait([parent.sentinel])
            os._exit(1)  # sys.exit() would end this thread only

    threading.Thread(target=wait, daemon=True).start()


def _sha256_share(folder: str, names: list[str]) -> dict[str, str]:
    return {name: sha256_file(extended(f"{folder}/{name}")) for name in names}
