"""Follow a running suite by its journal, which smoke/journal.py describes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path

from provision.core.progress import Progress

_TICK = 0.2  # seconds between two looks


@contextmanager
def followed(journal: Path, progress: Progress) -> Iterator[None]:
    """Report the checks of a suite while the block runs it."""
    end = threading.Event()
    # With the context, as these checks belong to the step of this thread.
    run, arguments = copy_context().run, (_follow, journal, progress, end)
    thread = threading.Thread(target=run, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _follow(journal: Path, progress: Progress, end: threading.Event) -> None:
    read, now, last = 0, "", False
    owed, ended = set[str](), set[str]()
    while not last:
        last = end.wait(_TICK)  # what was written last is read as well
        with suppress(OSError), journal.open("rb") as stream:
            stream.seek(read)
            lines = [line for line in stream if line.endswith(b"\n")]  # or it is being written
            read += sum(map(len, lines))
            for event in map(json.loads, lines):
                now = event.get("start", {"id": now})["id"]
                new = [event["result"]] if "result" in event else []
                owed |= {head["id"] for head in event.get("owed", ())}
                ended |= {head["id"] for head in (*event.get("excused", ()), *new)}
                whole = len(owed | ended) if owed else None
                progress.show(completed=len(ended), total=whole, now=now, ended=new)
