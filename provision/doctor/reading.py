"""A log as it is read: its lines, as they are and normalized, and where in them it fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

from provision.doctor.failures import Failure, any_of, last_failure, matching, quiet
from provision.doctor.normalize import normalize_log
from provision.doctor.sampling import Line, sample


@dataclass(frozen=True, slots=True)
class Log:
    """The lines of a log that can matter, and the numbers of those that tell of no failure."""

    raw: list[Line]
    lines: list[Line]  # normalized; beside a failure those that are harmless are empty
    failure: Failure  # by indices of ``lines``
    calm: set[int]  # that read like a failure, and are none
    mild: set[int]  # that only warn, or tell of what was handled
    warned: set[int]  # at the level of a warning, unless the failure is too


def read_log(source: str | BinaryIO) -> Log:
    """Read a text, or a stream of bytes from its position to its end. OSError: it has none."""
    raw = sample(source)
    lines = normalize_log(raw)
    calm = quiet(lines)
    warned = _warned(raw) | _warned(
        lines
    )  # a level may be in the prefix, or behind one
    mild = warned | {
        some[i].number for some in (raw, lines) for i in matching("mild", some)
    }
    loud = [Line(n, "" if n in calm else text) for n, text in lines]
    failure = last_failure(loud, calm | mild)
    if failure.ended is not None:
        last = lines[failure.ended]
        # Beside a failure a harmless line explains nothing, but an installer says so what ended it.
        lines = lines if last.text.startswith("ERROR: ") else loud
        warned = (
            set() if last.number in warned else warned
        )  # the logger's level of every line
    return Log(raw, lines, failure, calm, mild, warned)


def _warned(lines: Sequence[Line]) -> set[int]:
    """Return the numbers of lines that warn, and of sentences that go on with a warning."""
    said = {lines[i].number for i in matching("warned", lines)}
    for above, line in pairwise(line for line in lines if line.text.strip()):
        if above.number in said and any_of("warned_on").search(
            f"{above.text}\n{line.text}"
        ):
            said.add(line.number)
    return said
