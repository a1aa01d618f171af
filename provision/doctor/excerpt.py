"""What of a log tells of its failure, short enough for an issue and for any reader of it."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from provision.core.findings import Finding
from provision.doctor.failures import matching
from provision.doctor.reading import Log
from provision.doctor.sampling import Line

_MOST = 12_000  # signs: an issue takes 65,536, and a chatbot that runs at home takes a few pages
_LONG, _START = 400, 250  # signs of one line; how many of a longer one are its start
_TELLING = ("ending", "raised", "doubt", "weak_ending", "telling")
_QUOTED = re.compile(r"line (\d+): ")


def excerpt(log: Log, findings: Sequence[Finding]) -> list[str]:
    """Return the lines that tell most, with their numbers and in their order, and where some lack.

    A short log is given whole; of lines that differ in numbers alone a long one keeps few.
    """
    lines = [
        line for line in log.raw if any(map(str.isalnum, line.text))
    ]  # no rulers, no marks
    chosen, left = set[int](), _MOST
    for at in _by_weight(log, lines, findings):
        if at in chosen:
            continue
        left -= len(_shown(lines[at]))
        if left < 0:
            break
        chosen.add(at)
    shown = list[str]()
    for before, at in pairwise([-1, *sorted(chosen), len(lines)]):
        shown += ["     …"] if at > before + 1 else []
        shown += [_shown(line) for line in lines[at : at + 1]]
    return shown


def _by_weight(
    log: Log, lines: Sequence[Line], findings: Sequence[Finding]
) -> Iterator[int]:
    """Yield the indices of lines, those first without which the others tell least."""
    numbers = {line.number: at for at, line in enumerate(lines)}
    said = (_QUOTED.match(text) for found in findings for text in found.evidence)
    named = {int(quote[1]) for quote in said if quote}
    yield from (quoted := [numbers[n] for n in named & numbers.keys()])
    if (ended := log.failure.ended) is not None:
        end, start = (
            numbers.get(log.lines[i].number, 0) for i in (ended, log.failure.start)
        )
        yield from range(end, min(end + 5, len(lines)))
        yield from range(end - 1, max(start, end - 25) - 1, -1)
        yield from range(start, min(start + 8, end))
    yield from reversed(range(max(0, len(lines) - 12), len(lines)))
    yield from range(min(5, len(lines)))
    telling = {at for name in _TELLING for at in matching(name, lines)}
    yield from (fresh := [at for at in _fresh(lines) if at in telling])
    for at in (*quoted, *fresh):
        yield from range(max(0, at - 3), min(at + 4, len(lines)))
    yield from _fresh(lines)


def _fresh(lines: Sequence[Line]) -> Iterator[int]:
    """Yield the indices of lines, last first, that are no others with other numbers."""
    seen = set[str]()
    for at in reversed(range(len(lines))):
        if (shape := re.sub(r"\d+", "0", lines[at].text)) not in seen:
            seen.add(shape)
            yield at


def _shown(line: Line) -> str:
    text = line.text.rstrip()
    text = text if len(text) <= _LONG else f"{text[:_START]} … {text[_START - _LONG :]}"
    return f"{line.number:>6}  {text}"
