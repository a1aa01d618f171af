"""The last failure of a log: where it is, whether it wraps another, and what led to it."""

import re
from collections.abc import Container, Sequence
from functools import cache
from typing import NamedTuple

from provision.doctor.data import data
from provision.doctor.matcher import Search, literals
from provision.doctor.sampling import Line

_TRACEBACK = "Traceback (most recent call last)"
_NEAR = 12  # lines; a library often prints the cause just before it raises
_LAST_LINE = re.compile(r"[A-Za-z_][\w.]*(:|$)")
_RAISED = re.compile(
    r"[\w.]*[a-z](Error|Exception): |.*Could not run '\S+' with arguments from"
)  # never harmless, whatever its words


class Failure(NamedTuple):
    """The last failure in a log."""

    start: (
        int  # line where its traceback begins, or the first of a chain; 0 without one
    )
    near: frozenset[int]  # lines just above it that report an error
    ended: int | None  # the last line that reports a failure; None if none does
    wrapped: bool  # whether it only reports that another process failed, so the cause is above
    worked: int  # the last line on which the program did its work; what failed before was survived
    calm: bool  # whether no line tells of a failure, of work or of a good end


@cache
def any_of(name: str) -> re.Pattern[str]:
    """Return a list of ``failures.toml`` as one pattern."""
    return re.compile("|".join(data("failures")[name]))


def quiet(lines: Sequence[Line]) -> set[int]:
    """Return the numbers of lines that tell of no failure, though they read like one."""
    calm = (lines[i] for i in matching("harmless", lines))
    numbers = {line.number for line in calm if not _RAISED.match(line.text)}
    for at, line in enumerate(lines[1:]):
        # A traceback that a warning quotes belongs to the warning.
        if _TRACEBACK in line.text and any_of("quoting").search(lines[at].text):
            ends = (
                i for i in range(at + 2, len(lines)) if _LAST_LINE.match(lines[i].text)
            )
            numbers.update(each.number for each in lines[at + 1 : next(ends, at) + 1])
    return numbers


def last_failure(lines: Sequence[Line], warned: Container[int]) -> Failure:
    """Return the last failure of a log, where lines of the numbers ``warned`` only warn."""
    lines = _without_last_bars(lines)
    # What a destructor raises after the failure is a symptom of it.
    ignored = {
        i + 1 for i, line in enumerate(lines) if "Exception ignored in" in line.text
    }
    starts = [
        i
        for i, line in enumerate(lines)
        if _TRACEBACK in line.text and i not in ignored
    ]
    # C++ says what went wrong before where it was raised.
    ends = sorted(
        {*matching("ending", lines), *(i - 1 for i in matching("raised", lines) if i)}
    )
    start, torn = starts.pop() if starts else 0, False
    if lines and _TRACEBACK in lines[start].text:
        # An exception of any name ends a traceback: the first line indented no further than it.
        text = lines[start].text
        margin = len(text) - len(text.lstrip())
        rest = range(start + 1, len(lines))
        last = [i for i in rest if _LAST_LINE.match(lines[i].text, margin)][:1]
        if not last and not any(
            i >= start - _NEAR for i in ends
        ):  # it was not copied whole
            inner = [i for i in rest if lines[i].text[margin:][:1] in ("", " ")]
            after = next((i for i in rest if i not in inner), len(lines))
            torn = not any(line.number in warned for line in lines[after : after + 1])
            last = (
                [i for i in range(start, after) if lines[i].text][-1:] if torn else []
            )
        ends = sorted([*ends, *last])
    elif all(any_of("reporter").search(lines[i].text) for i in ends):
        weak, calm, doubt = (
            any_of(x).search for x in ("weak_ending", "handled", "doubt")
        )
        late = [i for i, line in enumerate(lines) if line.text.strip()][-_NEAR:]
        mild = {i for i in late if lines[i].number in warned or calm(lines[i].text)}
        ends += [
            i for i in late if doubt(t := lines[i].text) or (weak(t) and i not in mild)
        ]
        ends = sorted(set(ends))
    ends = [
        i for i in ends if not ignored.intersection(range(i - _NEAR, i + 1))
    ] or ends
    ends = [i for i in ends if not any_of("reporter").search(lines[i].text)] or ends
    # A launcher that raises says of its program's failure only that there was one.
    if ends and start and any_of("launcher").search(lines[ends[-1]].text):
        own = last_failure(lines[:start], warned)
        if own.ended is not None:
            return own
    told = any(any_of("wrapper").search(line.text) for line in lines[start:])
    wrapped = torn or (start > 0 and told)
    joined = any_of("chain").search
    while starts and (
        [start, *ends][-1] < start
        or any(joined(line.text) for line in lines[starts[-1] : start])
    ):
        start = starts.pop()
    # The first error after an earlier traceback is that traceback's own end.
    earlier = next((end for end in ends if starts and end > starts[-1]), -1)
    first = max(earlier, start - _NEAR - 1) + 1
    went_on = (
        i for i in range(first, start) if any_of("went_on").search(lines[i].text)
    )
    near = frozenset(ends).intersection(range(max(went_on, default=first), start))
    printed = {
        i + 1 for i in ends if lines[i].text.endswith(":")
    }  # a value that the error prints
    worked = max({*matching("at_work", lines)} - printed, default=-1)
    ended = ends[-1] if ends and ends[-1] > worked else None
    above = max((i for i in range(start) if lines[i].text), default=-1)
    if ended is not None and any_of("follow_up").search(lines[ended].text):
        wrapped |= above in {earlier, *near}
    later = [
        line for line in lines[0 if ended is None else ended + 1 :] if line.text.strip()
    ]
    # What a script prints after `time` has measured the program that failed tells nothing of it.
    timed = ended is not None and later and any_of("measured").match(later[0].text)
    well = [] if timed else matching("ended_well", later)
    still = ended is None and worked < 0 and not well
    return Failure(start, near, None if well else ended, wrapped, worked, still)


def _without_last_bars(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines without the bars that a program which an exception ends prints after it."""
    said = [i for i, line in enumerate(lines) if line.text.strip()]
    kept = sorted({*said} - {*matching("last_bar", lines)})[-1:]
    ended = kept and kept[0] in said[-4:] and _RAISED.match(lines[kept[0]].text)
    return lines[: kept[0] + 1] if ended else lines  # after more bars it went on


def matching(name: str, lines: Sequence[Line]) -> list[int]:
    """Return the indices of the lines that match a list of ``failures.toml``."""
    wanted = frozenset[str]().union(*map(literals, data("failures")[name]))
    return [
        i
        for i in Search(lines).lines_with(wanted)
        if any_of(name).search(lines[i].text)
    ]


def library_part(above: Sequence[Line]) -> list[str]:
    """Return the lines from the program's last frame on, if a library raised what follows."""
    frame, library, part = (
        any_of("frame").match,
        any_of("library_frame").search,
        list[str](),
    )
    for line in reversed(above):
        part.append(line.text)
        if "Traceback" in line.text or (frame(line.text) and not library(line.text)):
            break
    return part if any(frame(text) and library(text) for text in part) else []


def frames(failure: Failure, lines: Sequence[Line]) -> list[str]:
    """Return the frames of the last traceback, innermost last."""
    above = [line.text.strip() for line in lines[failure.start : failure.ended]]
    found = [text for text in above if any_of("frame").match(text)]
    if found[1:] and not any(_TRACEBACK in text for text in above):
        main = [text.endswith(", in <module>") for text in found]
        found = (
            found[::-1] if main[-1] and not main[0] else found
        )  # a debugger's: innermost first
    return found or [text for text in above if any_of("pointer").match(text)]
