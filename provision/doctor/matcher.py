"""Search of many patterns in many lines: first, at a hundredth of the cost, for a literal part."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

from provision.doctor.sampling import Line

_MOST_HITS = 32  # findings quote one line, so the last matches are enough
# The parts of a pattern: an escaped sign, the beginning of a group, a class or another special sign,
# a quantifier, what ends an alternative, or a plain character.
_TOKEN = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])"
    r"|\((?P<open>(?:\?(?:P<\w+>|[i-]*:|=|!|<=|<!))?)"
    r"|(?P<other>\\.|\[\^?\]?(?:\\.|[^\]])*\]|[.^$])"
    r"|(?P<repeated>[*+?]|\{\d+(?:,\d*)?\})"
    r"|(?P<end>[|)])"
    r"|(?P<plain>.)",
    re.DOTALL,
)
_LOOK_AROUND = ("?=", "?!", "?<=", "?<!")
_NONE = frozenset({""})  # a part that may match anything

Hit = tuple[int, re.Match[str]]  # the index of a line in the sample, and the match
Literals = frozenset[str]  # every match of a pattern contains at least one of them


@cache
def literals(pattern: str) -> Literals:
    """Return texts, in lower case, of which every match of a pattern contains at least one.

    That is the longest literal of the pattern, or the group whose shortest alternative is longest:
    the longer a text, the fewer lines contain it. A look-ahead or an optional part gives none.
    """
    return _alternatives(_TOKEN.finditer(pattern))


def _alternatives(tokens: Iterator[re.Match[str]]) -> Literals:
    """Read up to the end of a group; each alternative contributes the best of its parts."""
    best = set[str]()
    parts: list[Literals] = []
    literal = ""
    for token in tokens:
        kind = token.lastgroup
        if kind in ("escaped", "plain"):
            literal += token[kind].lower()
            continue
        if kind == "repeated" and token[kind] != "+":  # what is before it may be absent
            if not literal:
                del parts[-1:]
            literal = literal[:-1]
        parts.append(frozenset({literal}))
        literal = ""
        if kind == "end":
            best |= _longest(parts)
            parts = []
            if token[kind] == ")":
                return frozenset(best)
        elif kind != "repeated":
            parts.append(_special(token, tokens))
    return frozenset(best | _longest([*parts, frozenset({literal})]))


def _special(token: re.Match[str], tokens: Iterator[re.Match[str]]) -> Literals:
    """Read a group, or a sign that stands for several texts."""
    if token["open"] is None:
        return _NONE
    group = _alternatives(tokens)
    return _NONE if token["open"] in _LOOK_AROUND else group


def _longest(parts: list[Literals]) -> Literals:
    return max(parts, key=lambda part: min(map(len, part)))


class Search:
    """The lines of a sample, searched for one pattern after another; results are cached."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        lowered = [line.text.lower() for line in lines]
        self._text = "\n".join(lowered)
        self._starts = [0, *accumulate(len(text) + 1 for text in lowered)]
        self._hits: dict[str, list[Hit]] = {}

    def find(self, pattern: str) -> list[Hit]:
        """Return the matches of a pattern, ignoring case, at most one per line, the last 32."""
        if pattern not in self._hits:
            hits = []
            for at in self.lines_with(literals(pattern)):  # of most patterns no line
                match = _compiled(pattern).search(self.lines[at].text)
                if match:
                    hits.append((at, match))
            self._hits[pattern] = hits[-_MOST_HITS:]
        return self._hits[pattern]

    def lines_with(self, texts: Iterable[str]) -> list[int]:
        """Return the indices of lines with one of some texts, which are in lower case."""
        indices = set()
        for text in texts:
            place = self._text.find(text)
            while place >= 0:
                at = bisect_right(self._starts, place) - 1
                indices.add(at)
                place = self._text.find(text, self._starts[at + 1])  # once per line
        return sorted(indices)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
