"""Normalization of pasted logs: the lines without what loggers, terminals and chats change."""

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

from provision.doctor.data import data
from provision.doctor.failures import any_of
from provision.doctor.sampling import Line

# Where a traceback begins, or one of its frames, which is indented by two blanks.
_TRACE = re.compile(r'Traceback \(most recent call +last\)|  File "[^"]+", line \d')
_LEVELS = "(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_MOST_PREFIXES = 5  # nested, such as docker compose and a logger in a quotation
_END = re.compile(r"\s*[│┃║]$|(?:</\w+>|<br ?/?>)+$|(?<=[^*])\*\*$")
_QUOTE = re.compile(r"^\s*b?['\"]")
_ESCAPED_END = re.compile(r"(?<!\\)(?:\\r)?\\n")
_ESCAPED_SIGN = re.compile(r"\\([\"'\\])")
_VALUE = re.compile(r'(\w+)"?(?:=|: )("(?:[^"\\]|\\.)*")')
_CONSOLES, _MAILS = (80, 120), range(60, 141)  # default widths of terminals; of others
# PowerShell wraps stderr at the width of its window; its own lines tell that, and not the width.
_POWERSHELL = re.compile(r"^\s*\+ (?:CategoryInfo|FullyQualifiedErrorId) +: ")
_SHELL_LINE = re.compile(r"^\s*\+ |^\S+ : |^\S.*\b\d+ .*: ?\d+$")
_CALM = ("warned", "mild", "harmless", "handled")
_MOST_PARTS = 50  # more lines of that width in a row are data, not one wrapped line


def normalize_log(lines: Sequence[Line]) -> list[Line]:
    """Return lines without prefixes, wrapping, escapes and a common margin; numbers are kept."""
    # Word processors and chats replace plain blanks and quotes; editors add a byte order mark.
    signs, coded = str.maketrans(data("failures")["signs"]), any_of("entity").search
    bare = [
        Line(
            line.number,
            _bare((html.unescape(text) if coded(text) else text).translate(signs)),
        )
        for line in _unshared(list(_unwrapped(lines)))
        for text in _unescaped(line.text)
    ]
    bare = [each for line in _aligned(bare) for each in (line, _english(line)) if each]
    raw = {line.number: line.text for line in lines}
    named = (_named(line, raw) for line in bare)
    bare = [_joined(*pair) for pair in pairwise([*named, Line(0, "")])]
    margin = min(
        (len(x.text) - len(x.text.lstrip()) for x in bare if x.text), default=0
    )
    return [Line(line.number, line.text[margin:]) for line in bare] if margin else bare


def _aligned(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield lines without what a program puts before each; a traceback begins a line."""
    parts = [_TRACE.split(line.text, maxsplit=1) for line in lines]
    before = [part[0] if part[1:] and part[0].strip() else "" for part in parts]
    shapes = set[str]()  # patterns of prefixes like these, of any level and number
    for text, after in zip(before, [*lines[1:], Line(0, "")], strict=False):
        shape = re.sub(r"\d+", r"\\d+", re.sub(_LEVELS, _LEVELS, re.escape(text)))
        if text and ("%|" in text or re.match(shape, after.text)):
            shapes.add(shape)
    known = re.compile("|".join(sorted(shapes)[:_MOST_PREFIXES]) or "(?!)")
    for line, text in zip(lines, before, strict=True):
        own = known.match(line.text)
        if text and not own:
            yield Line(line.number, text)
        yield Line(line.number, line.text[own.end() if own else len(text) :])


def _joined(line: Line, after: Line) -> Line:
    """Return an exception's line with its message, where that is in the next line."""
    found = any_of("name_alone").match(line.text)
    return (
        Line(line.number, f"{found['name']}: {after.text.strip()}".rstrip())
        if found
        else line
    )


@cache
def _messages() -> re.Pattern[str]:
    known = data("failures")["exceptions"].items()
    names = "|".join(rf"(?P<{name}>{said})" for name, said in known)
    return re.compile(
        rf"(?:{any_of('caught').pattern})?(?:{any_of('as_repr').pattern}|{names})"
    )


def _named(line: Line, raw: Mapping[int, str]) -> Line:
    """Return a line that has an exception's message alone, or its repr, as Python prints it."""
    if not (found := _messages().match(line.text)):
        return line
    # The line after what a warning says is its reason.
    said = [raw.get(number, "") for number in (line.number - 1, line.number)]
    if any(any_of(name).search(text) for name in _CALM for text in said):
        return line
    told = found["text"] or line.text[found.start(found.lastgroup or 0) :]
    return Line(line.number, f"{found['of'] or found.lastgroup}: {told}")


def _english(line: Line) -> Line | None:
    """Return the line with its known words of another language in English; None if it has none."""
    text = line.text.replace("\uff1a", ": ")
    for english, words in data("failures")["english"].items():
        text = re.sub(words, english, text)
    return Line(line.number, text) if text != line.text else None


def _bare(text: str) -> str:
    text = _END.sub("", text)
    for _ in range(_MOST_PREFIXES):
        found = any_of("before").match(text)
        if not found or not found.end():
            break
        text = text[found.end() :]
    quoted = (
        text.count("`") % 2 or text[:1] + text[-1:] == "``"
    )  # wholly, or from or to its end
    return (text.strip("`") if quoted else text).rstrip()


def _unescaped(text: str) -> list[str]:
    """Split a line that holds a whole text: a JSON object, or a text with escaped line ends."""
    if values := _stored(text):
        return [part for value in values for part in value.splitlines()]
    if "\\n" not in text or not any_of("escaped").search(text):
        return [text]
    text = _QUOTE.sub("", text)
    return [_ESCAPED_SIGN.sub(r"\1", part) for part in _ESCAPED_END.split(text)]


def _stored(text: str) -> list[str]:
    """Return the messages of a JSON object, or of a logger's fields; nothing if there are none."""
    if any_of("fields").match(text):
        text = (
            "{"
            + ",".join(f'"{key}":{value}' for key, value in _VALUE.findall(text))
            + "}"
        )
    try:
        at = text.index("{")
        values = list(_texts("", json.JSONDecoder().raw_decode(text, at)[0]))
    except (ValueError, RecursionError):
        return []
    return (
        [text, *values]
        if values and text[:at].rstrip().endswith((":", "=", "("))
        else values
    )


def _texts(key: str, value: object) -> Iterator[str]:
    if isinstance(value, str) and any_of("message").search(key):
        yield value.encode("utf-8", "replace").decode()
    pairs = value.items() if isinstance(value, dict) else ()
    for pair in [(key, each) for each in value] if isinstance(value, list) else pairs:
        yield from _texts(*pair)


def _unshared(lines: list[Line]) -> list[Line]:
    """Return the lines without what stands before most of them, whatever its numbers are."""
    found = [any_of("shared").match(line.text) for line in lines]
    shapes = [re.sub(r"[\d\s]+", "0", each[0]) if each else "" for each in found]
    most = max(counts := Counter(shapes), key=counts.__getitem__, default="")
    rows = zip(lines, found, shapes, strict=True)
    return [
        Line(x.number, x.text[m.end() :]) if m and s == most else x for x, m, s in rows
    ]


def _unwrapped(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines, and after the parts of a line that a terminal wrapped the whole line."""
    # The parts too: that the longest line is exactly as wide as a terminal may be chance.
    powershell = any(_POWERSHELL.search(line.text) for line in lines)
    own = [len(x.text) for x in lines if not (powershell and _SHELL_LINE.match(x.text))]
    width = max(own, default=0)
    narrow = powershell and (width >= _MAILS.start or own.count(width) > 3)
    wrapped = width in _CONSOLES or narrow
    parts: list[Line] = []
    for line, after in pairwise([*lines, Line(0, "")]):
        yield line
        # What goes on does not begin with the sign that somebody put before every line.
        listed = after.text[:1] == line.text[:1] and re.match(r"[^\w\s]", line.text)
        full = wrapped and len(line.text) == width and not listed
        full |= powershell and line.text.endswith(
            " "
        )  # it also ends a line between words
        if full or parts:
            parts.append(line)
        if not (full and after.number):
            if 1 < len(parts) <= _MOST_PARTS:
                yield Line(parts[0].number, "".join(part.text for part in parts))
            parts = []
