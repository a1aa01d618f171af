"""Ctrl-C where threads work: it is noticed at chosen places, and ends what all of them do.

Python handles a signal in the main thread, between any two steps of it. An exception there can
leave a lock of a pool held for ever; and a wait without limit that begins just after the signal,
or any on Windows, sleeps through it. So the main thread waits in short steps, and looks itself.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from typing import TypeVar

STEP = 0.2  # seconds of one wait
Item = TypeVar("Item")
Result = TypeVar("Result")
_interrupted, _deferred = False, 0


def interrupt() -> bool:
    """End the work of all threads; return whether the main thread is to raise right now."""
    global _interrupted
    again, _interrupted = _interrupted, True
    return again or not _deferred


def is_interrupted() -> bool:
    """Whether :func:`interrupt` was called: what is done from now on only ends."""
    return _interrupted


def check_interrupted() -> None:
    """Raise KeyboardInterrupt, in any thread, after :func:`interrupt`."""
    if _interrupted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let the first Ctrl-C raise at :func:`check_interrupted` only, and when this ends."""
    global _deferred  # noqa: PLW0603 - signals are the process's
    # Other threads get no signals.
    count = int(threading.current_thread() is threading.main_thread())
    _deferred += count
    try:
        yield
    finally:
        _deferred -= count
    check_interrupted()


def results(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield what a function returns for each item, in their order, as ``pool.map`` does."""
    futures = [pool.submit(function, item) for item in items]
    try:
        for future in futures:
            while not wait([future], STEP).done:
                check_interrupted()
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


def in_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int | None = None,
) -> list[Result]:
    """Return what a function returns for each item, called in some threads at a time."""
    with deferred(), ThreadPoolExecutor(threads) as pool:
        return list(results(pool, function, items))
