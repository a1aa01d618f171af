"""The last failure of a log: where it begins and ends, and whether it wraps an earlier one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from provision.doctor.sampling import Line

_TRACEBACK = "Traceback (most recent call last)"
_NEAR = 12  # lines; a library often prints the cause just before it raises
_CHAIN = re.compile(r"During handling of the above exception|was the direct cause of the following")
# The last line of a traceback, or a line that ends a program without one; indented where a program
# repeats the output of another.
_ENDING = re.compile(
    r"^\s*(?:E\s+)?(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Exit|Invalid\w+)\b(?::|$| \()"
    r"|^\s*(?:[\w./-]+: )?(?:ERROR|error|FATAL|fatal)\b[:! ].*\w|^\s*\[E[ \d]|^\s*Killed\b"
    r"|^\s*\w+\.error: |can't open file|core dumped|Segmentation fault|Fatal Python error"
    r"|^\s*Aborted\b|^\s*terminate called"
)
_LAST_LINE = re.compile(r"[A-Za-z_][\w.]*(:|$)")
# A program that prints one of these after an error has survived it.
_WENT_ON = re.compile(r"\bINFO\b|\b[Cc]ontinuing\b|\b([Ee]poch|[Ss]tep)\W+\d")
# Output of a program that does its work. That a server has started is no such output: its model may
# still fail to load.
_AT_WORK = re.compile(
    r"^(?!.*(?:[Ll]oading|[Ff]etching|safetensors|\.bin)).*100%\|█.*(?:it/s|s/it)"
    r"|\btrain_runtime\b|\btokens? per second\b|\b200\b.*\bPOST\b|\bPOST\b.*\b200\b"
    r"|No broken requirements found|All installed packages are compatible"
    r"|^=+ \d+ passed(?!.*\b(?:failed|errors?)\b)"
)
# Exceptions that only report the failure of another process or import.
_WRAPPER = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessRaisedException|RayTaskError|SystemExit"
    r"|ProcessExitedException|EngineCore|Engine process failed|EngineDeadError"
)


class Failure(NamedTuple):
    """The last failure in a log."""

    start: int  # line where its traceback begins, or the first of a chain; 0 without one
    near: frozenset[int]  # lines just above it that report an error
    ended: int | None  # the last line that reports a failure; None if none does
    wrapped: bool  # whether it only reports that another process failed, so the cause is above
    worked: int  # the last line on which the program did its work; what failed before was survived


def last_failure(lines: Sequence[Line]) -> Failure:
    """Return the last failure of a log; its ``ended`` is None if nothing failed."""
    starts = [i for i, line in enumerate(lines) if _TRACEBACK in line.text]
    ends = [i for i, line in enumerate(lines) if _ENDING.search(line.text)]
    start = starts.pop() if starts else 0
    if lines and _TRACEBACK in lines[start].text:
        # An exception of any name ends a traceback: the first line indented no further than it.
        text = lines[start].text
        margin = len(text) - len(text.lstrip())
        rest = range(start + 1, len(lines))
        ends += [i for i in rest if _LAST_LINE.match(lines[i].text, margin)][:1]
        ends.sort()
    wrapped = bool(start) and any(_WRAPPER.search(line.text) for line in lines[start:])
    while starts and any(_CHAIN.search(line.text) for line in lines[starts[-1] : start]):
        start = starts.pop()
    # The first error after an earlier traceback is that traceback's own end.
    earlier = next((end for end in ends if starts and end > starts[-1]), -1)
    first = max(earlier, start - _NEAR - 1) + 1
    went_on = (i for i in range(first, start) if _WENT_ON.search(lines[i].text))
    first = max(went_on, default=first)
    near = frozenset(end for end in ends if first <= end < start)
    worked = max((i for i, line in enumerate(lines) if _AT_WORK.search(line.text)), default=-1)
    ended = ends[-1] if ends and ends[-1] > worked else None
    return Failure(start, near, ended, wrapped, worked)
