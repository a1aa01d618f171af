"""Count the calls of Python functions, which is how much work something is; run without tracing."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions are called while ``work`` runs, C functions included."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Let coverage look away: ten thousand repetitions reach no line that a hundred did not."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
