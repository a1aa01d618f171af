"""Finding many patterns in many lines quickly: by a literal first, by the pattern then."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provision.doctor.sampling import Line

_MOST_HITS = 32
_MOST_LOOKS = 4096
# An escaped sign, a group's beginning, a class, another special sign, or a plain character.
_TOKEN = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])|(?P<open>\((?:\?(?:P<\w+>|:|=|!|<=|<!))?)"
    r"|(?P<other>\\.|\[\^?\]?(?:\\.|[^\]])*\]|[.^$])|(?P<sign>[*+?|)]|\{\d+(?:,\d*)?\})|(?P<plain>.)",
    re.DOTALL,
)

Hit = tuple[int, re.Match[str]]
"""The index of a line in the sample, and the match in it."""

Needles = frozenset[str]
"""Texts of which at least one is in whatever a pattern matches."""


@cache
def needles(pattern: str) -> Needles:
    """Return texts, in lower case, of which every match of a pattern contains at least one.

    The longest literal, or the group whose shortest alternative is longest; looking for these
    first is a hundred times faster than trying every pattern on every line.
    """
    return _alternatives(_TOKEN.finditer(pattern))


def _alternatives(tokens: Iterator[re.Match[str]]) -> Needles:
    """Read up to the end of a group; each alternative gives the best of its parts."""
    best: set[str] = set()
    parts: list[Needles] = []
    run = ""
    for token in tokens:
        sign = token["sign"] or ""
        if literal := token["escaped"] or token["plain"]:
            run += literal.lower()
            continue
        if sign[:1] in ("?", "*", "{"):  # what stands before it may be absent
            parts.append(frozenset({run[:-1]}))
            parts = parts[:-2] + parts[-1:] if not run and len(parts) > 1 else parts
            run = ""
            continue
        parts.append(frozenset({run}))
        run = ""
        if token["open"]:
            inside = _alternatives(tokens)
            parts.append(frozenset({""}) if token["open"][2:] in ("!", "<!", "=", "<=") else inside)
        elif token["other"]:
            parts.append(frozenset({""}))
        elif sign in ("|", ")"):
            best |= _best(parts)
            parts = []
            if sign == ")":
                return frozenset(best)
    return frozenset(best | _best([*parts, frozenset({run})]))


def _best(parts: list[Needles]) -> Needles:
    return max(parts, key=lambda part: min(map(len, part)))


class Search:
    """All lines of a sample, asked for one pattern after another; answers are remembered."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self._text = "\n".join(line.text for line in lines).lower()
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line.text.lower()) + 1)
        self._found: dict[str, list[Hit]] = {}

    def find(self, pattern: str) -> list[Hit]:
        """Return where a pattern matches, whatever the case, at most once per line."""
        if pattern not in self._found:
            lines = self._lines_with(needles(pattern))
            self._found[pattern] = self._matches(pattern, lines) if lines else []
        return self._found[pattern]

    def _matches(self, pattern: str, lines: list[int]) -> list[Hit]:
        compiled = re.compile(pattern, re.IGNORECASE)  # costs more than all the rest
        found = ((index, compiled.search(self.lines[index].text)) for index in lines)
        return [(index, match) for index, match in found if match][-_MOST_HITS:]

    def _lines_with(self, wanted: Needles) -> list[int]:
        found: set[int] = set()
        for literal in wanted:
            at = self._text.find(literal)
            while at >= 0 and len(found) < _MOST_LOOKS:
                index = bisect_right(self._starts, at) - 1
                found.add(index)
                at = self._text.find(literal, self._starts[index + 1])
        return sorted(found)
