"""A log as it is read: its lines, as they are and normalized, and where in them it fails."""

from dataclasses import dataclass
from typing import BinaryIO

from provision.doctor.failures import Failure, any_of, last_failure, matching
from provision.doctor.normalize import normalize_log
from provision.doctor.sampling import Line, sample


@dataclass(frozen=True, slots=True)
class Log:
    """The lines of a log that can matter, and the numbers of those that only warn."""

    raw: list[Line]
    lines: list[Line]  # normalized; those that are harmless are empty
    failure: Failure  # by indices of ``lines``
    warnings: set[int]


def read_log(source: str | BinaryIO) -> Log:
    """Read a text, or a stream of bytes from its position to its end. OSError: it has none."""
    raw = sample(source)
    lines = normalize_log(raw)
    # A level may be a part of a prefix.
    warnings = _numbers("warned", raw) | _numbers("warned", lines)
    for at in matching("harmless", lines):
        number, text = lines[at]
        if not any_of("never_harmless").match(text):
            lines[at] = Line(number, "")
    failure = last_failure(lines, _numbers("error_level", raw))
    return Log(raw, lines, failure, warnings)


def _numbers(name: str, lines: list[Line]) -> set[int]:
    """Return the numbers of the lines that match a list of ``failures.toml``."""
    return {lines[at].number for at in matching(name, lines)}
