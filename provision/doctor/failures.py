"""The last failure of a log: where it is, and whether it only reports another one."""

import re
from collections.abc import Container, Sequence
from functools import cache
from typing import NamedTuple

from provision.doctor.data import data
from provision.doctor.matcher import Search, literals
from provision.doctor.sampling import Line

_TRACEBACK = "Traceback (most recent call last)"
_NEAR = 12  # lines
_LAST_LINE = re.compile(r"[A-Za-z_][\w.]*(:|$)")


class Failure(NamedTuple):
    """The last failure in a log, by the indices of lines."""

    start: int  # what is before it, the program survived
    ended: int | None  # the last line that reports the failure; None if nothing failed


@cache
def any_of(name: str) -> re.Pattern[str]:
    """Return a list of ``failures.toml`` as one pattern."""
    return re.compile("|".join(data("failures")[name]))


def matching(name: str, lines: Sequence[Line]) -> list[int]:
    """Return the indices of the lines that match a list of ``failures.toml``."""
    needed = set[str]()
    for pattern in data("failures")[name]:
        needed |= literals(pattern)
    candidates = Search(lines).lines_with(needed)
    return [at for at in candidates if any_of(name).search(lines[at].text)]


def last_failure(lines: Sequence[Line], errors: Container[int]) -> Failure:
    """Return the last failure of a log; a logger calls the lines of some numbers errors."""
    ends = _ends(lines, errors)
    causes = ends.difference(matching("reporter", lines))
    ended = max(causes or ends, default=-1)
    worked = max(matching("at_work", lines), default=-1)
    until_end = lines[: ended + 1]
    earlier = [at for at, line in enumerate(until_end) if _TRACEBACK in line.text]
    after = lines[ended + 1 :]
    computed, well = matching("computed", after), matching("ended_well", after)
    if ended <= worked or computed or well:
        # A program that failed may print late what it computed before, from a buffer, but no good
        # end. Of several processes one may go on for a while: nothing fails after it.
        finished = computed and max(well, default=-1) > max(computed)
        raised = [_end_of_traceback(lines, at) for at in earlier[-1:]]
        if finished and raised == [ended] and ended == max(ends):
            worked = max(worked, ended)
        return Failure(worked + 1, None)
    start = _first_of_chain(lines, earlier)
    if matching("wrapper", lines[start : ended + 1]):
        return Failure(worked + 1, ended)
    # A library often prints the cause just before it raises.
    bound = max(worked, start - _NEAR)
    if earlier:
        bound = max(_end_of_traceback(lines, earlier[-1]), start - _NEAR)
    for at in sorted(ends):
        if bound < at < start:
            return Failure(at, ended)
    return Failure(start, ended)


def _ends(lines: Sequence[Line], errors: Container[int]) -> set[int]:
    """Return the lines that report a failure, by their indices."""
    ends = {*matching("ending", lines)}
    for at, line in enumerate(lines):
        if _TRACEBACK in line.text:
            ends.add(_end_of_traceback(lines, at))
        elif line.text and line.number in errors:
            ends.add(at)
    return ends


def _first_of_chain(lines: Sequence[Line], tracebacks: list[int]) -> int:
    """Take the last traceback, with those that led to it, from a list; return the first's line."""
    if not tracebacks:
        return 0
    start = tracebacks.pop()
    while tracebacks and matching("chain", lines[tracebacks[-1] : start]):
        start = tracebacks.pop()
    return start


def _end_of_traceback(lines: Sequence[Line], start: int) -> int:
    """Return the line of the exception: the first that is indented no further."""
    text = lines[start].text
    margin = len(text) - len(text.lstrip())
    for at in range(start + 1, len(lines)):
        if _LAST_LINE.match(lines[at].text, margin):
            return at
        if _TRACEBACK in lines[at].text:
            return at - 1  # it was not copied to its end
    return len(lines) - 1


def frames(lines: Sequence[Line]) -> list[str]:
    """Return the calls of a traceback, innermost last."""
    calls = []
    for line in lines:
        text = line.text.strip()
        if any_of("frame").match(text):
            calls.append(text)
    return calls
