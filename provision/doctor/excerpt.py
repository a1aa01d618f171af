"""What of a log tells of its failure, short enough for an issue and for any reader of it."""

import re
from collections.abc import Iterator, Sequence

from provision.core.findings import Finding
from provision.doctor.failures import matching
from provision.doctor.reading import Log
from provision.doctor.sampling import Line

_MOST = 12_000  # signs: an issue takes 65,536, and a chatbot that runs at home takes a few pages
_LONG, _START = 400, 250  # signs of one line; how many of a longer one are its start
_QUOTED = re.compile(r"line (\d+): ")


def excerpt(log: Log, findings: Sequence[Finding]) -> list[str]:
    """Return the lines that tell most, with their numbers and in their order, and where some lack.

    A short log is given whole; of lines that differ in numbers alone a long one keeps few.
    """
    lines = [line for line in log.raw if re.search(r"\w", line.text)]  # no rulers
    chosen = {}
    room = _MOST
    for at in _by_weight(log, lines, findings):
        if at in chosen or not 0 <= at < len(lines):
            continue
        shown = _shown(lines[at])
        room -= len(shown)
        if room < 0:
            break
        chosen[at] = shown
    excerpted = []
    previous = -1
    for at in sorted(chosen):
        if at > previous + 1:
            excerpted.append("     …")
        excerpted.append(chosen[at])
        previous = at
    if previous + 1 < len(lines):
        excerpted.append("     …")
    return excerpted


def _by_weight(
    log: Log, lines: Sequence[Line], findings: Sequence[Finding]
) -> Iterator[int]:
    """Yield the indices of lines, those first without which the others tell least."""
    index = {line.number: at for at, line in enumerate(lines)}
    quoted = [index[number] for number in _quoted(findings)]
    yield from quoted
    if log.failure.ended is not None:
        end = index[log.lines[log.failure.ended].number]
        start = index.get(log.lines[log.failure.start].number, 0)
        yield from range(end, end + 5)
        yield from range(end - 1, max(start, end - 25) - 1, -1)
        yield from range(start, min(start + 8, end))
    yield from range(len(lines) - 1, len(lines) - 13, -1)
    yield from range(5)
    telling = {*matching("ending", lines), *matching("telling", lines)}
    distinct = _distinct(lines)
    for at in distinct:
        if at in telling:
            yield at
    for at in quoted:
        yield from range(at - 3, at + 4)
    yield from distinct


def _quoted(findings: Sequence[Finding]) -> Iterator[int]:
    """Yield the numbers of the lines that findings quote."""
    for finding in findings:
        for text in finding.evidence:
            quote = _QUOTED.match(text)
            if quote:
                yield int(quote[1])


def _distinct(lines: Sequence[Line]) -> list[int]:
    """Return the indices of lines, last first, that are no others with other numbers."""
    by_shape = {}
    for at, line in enumerate(lines):
        shape = re.sub(r"\d+", "0", line.text)
        by_shape[shape] = at
    return sorted(by_shape.values(), reverse=True)


def _shown(line: Line) -> str:
    text = line.text.rstrip()
    if len(text) > _LONG:
        text = f"{text[:_START]} … {text[_START - _LONG :]}"
    return f"{line.number:>6}  {text}"
