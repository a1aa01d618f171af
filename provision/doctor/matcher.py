"""Search of many patterns in many lines: first, at a hundredth of the cost, for a literal part."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate

from provision.doctor.sampling import Line

_MOST_HITS = 32  # findings quote one line, so the last matches are enough
# An escaped sign, a group's beginning, a class, another special sign, or a plain character.
_TOKEN = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])|(?P<open>\((?:\?(?:P<\w+>|[i-]*:|=|!|<=|<!))?)"
    r"|(?P<other>\\.|\[\^?\]?(?:\\.|[^\]])*\]|[.^$])|(?P<sign>[*+?|)]|\{\d+(?:,\d*)?\})|(?P<plain>.)",
    re.DOTALL,
)

Hit = tuple[
    int, re.Match[str]
]  # the index of a line in the sample, and the match in it
Literals = frozenset[
    str
]  # texts of which at least one is part of every match of a pattern


@cache
def literals(pattern: str) -> Literals:
    """Return texts, in lower case, of which every match of a pattern contains at least one.

    That is the longest literal of the pattern, or the group whose shortest alternative is longest:
    the longer a text, the fewer lines contain it. A look-ahead or an optional part gives none.
    """
    return _alternatives(_TOKEN.finditer(pattern))


def _alternatives(tokens: Iterator[re.Match[str]]) -> Literals:
    """Read up to the end of a group; each alternative contributes the best of its parts."""
    best: set[str] = set()
    parts: list[Literals] = []
    run = ""
    for token in tokens:
        sign = token["sign"] or ""
        if literal := token["escaped"] or token["plain"]:
            run += literal.lower()
            continue
        if sign[:1] in (
            "?",
            "*",
            "{",
        ):  # the character or group before it may be absent
            parts.append(frozenset({run[:-1]}))
            parts = parts[:-2] + parts[-1:] if not run and len(parts) > 1 else parts
            run = ""
            continue
        parts.append(frozenset({run}))
        run = ""
        if token["open"]:
            inside = _alternatives(tokens)
            parts.append(
                frozenset({""})
                if token["open"][2:] in ("!", "<!", "=", "<=")
                else inside
            )
        elif token["other"]:
            parts.append(frozenset({""}))
        elif sign in ("|", ")"):
            best |= _best(parts)
            parts = []
            if sign == ")":
                return frozenset(best)
    return frozenset(best | _best([*parts, frozenset({run})]))


def _best(parts: list[Literals]) -> Literals:
    return max(parts, key=lambda part: min(map(len, part)))


def _threes(text: str) -> set[str]:
    return {a + b + c for a, b, c in zip(text, text[1:], text[2:], strict=False)}


_compiled, _threes_of = cache(re.compile), cache(_threes)


class Search:
    """The lines of a sample, searched for one pattern after another; results are cached."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self._text = "\n".join(line.text for line in lines).lower()
        # Of the lowered text: İ, for one, becomes two characters.
        self._starts = [0, *accumulate(len(line.text.lower()) + 1 for line in lines)]
        self._found: dict[str, list[Hit]] = {}
        # In a long text most literals are not looked for: it does not have all their parts.
        self._threes = _threes(self._text if len(lines) > _MOST_HITS else "")

    def find(self, pattern: str) -> list[Hit]:
        """Return the matches of a pattern, ignoring case, at most one per line, the last 32."""
        if (hits := self._found.get(pattern)) is None:
            hits = []
            if lines := self.lines_with(literals(pattern)):  # of most patterns no line
                search = _compiled(pattern, re.IGNORECASE).search
                found = ((index, search(self.lines[index].text)) for index in lines)
                hits = [(index, match) for index, match in found if match][-_MOST_HITS:]
            self._found[pattern] = hits
        return hits

    def lines_with(self, wanted: Literals) -> list[int]:
        """Return the indices of lines with one of some texts."""
        found: set[int] = set()
        text, threes = self._text, self._threes
        for literal in wanted:
            if (threes and not threes >= _threes_of(literal)) or literal not in text:
                continue
            at = text.find(literal)
            while at >= 0:
                index = bisect_right(self._starts, at) - 1
                found.add(index)
                at = text.find(
                    literal, self._starts[index + 1]
                )  # once per line is enough
        return sorted(found)
