"""The search for the first bad one in a row, some of which cannot be tried."""

from collections.abc import Callable
from typing import Literal

Word = Literal["good", "bad", "skipped"]
State = Literal["found", "range", "good", "bad", "unknown", "unstable"]


def search(judge: Callable[[int], Word], count: int) -> dict[int, Word]:
    """Return what is known of a row, by place: its ends first, then halves of what is left.

    Only the ends where the last one is not bad, or the first one that can be tried is not good.
    """
    words: dict[int, Word] = {}
    last = count - 1
    words[last] = judge(last)
    if words[last] != "bad":
        return words
    for place in range(last):
        words[place] = judge(place)
        if words[place] != "skipped":
            break
    while (middle := _next(words)) is not None:
        words[middle] = judge(middle)
    return words


def most_tried(between: int) -> int:
    """Return how many of those between two ends are tried at most, if each gives a verdict."""
    return between.bit_length()


def last_good(words: dict[int, Word]) -> int | None:
    """Return the place of the last good one; None without any."""
    good = [place for place, word in words.items() if word == "good"]
    return max(good, default=None)


def first_bad(words: dict[int, Word]) -> int | None:
    """Return the place of the first bad one that was tried; None without any."""
    bad = [place for place, word in words.items() if word == "bad"]
    return min(bad, default=None)


def state_of(words: dict[int, Word], count: int) -> State:
    """Return how a search ended."""
    at_end = words[count - 1]
    if at_end != "bad":
        return "good" if at_end == "good" else "unknown"
    low, high = last_good(words), first_bad(words)
    if low is not None and high is not None:
        return "found" if high - low == 1 else "range"
    return "bad" if high != count - 1 else "unknown"


def _next(words: dict[int, Word]) -> int | None:
    """Return the place to try next: the one nearest to the middle; None where none is left."""
    low, high = last_good(words), first_bad(words)
    if low is None or high is None or low > high:
        return None
    left = [place for place in range(low + 1, high) if place not in words]
    return min(left, key=lambda place: abs(2 * place - low - high), default=None)
