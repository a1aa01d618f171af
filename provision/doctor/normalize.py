"""Normalization of pasted logs: the lines without what loggers, terminals and chats change."""

import html
import json
import re
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
_BOX_END = re.compile(r"\s*[│┃║]$")
# A text whose line ends are escaped, as by repr. A \n alone may be part of a path such as C:\new.
_ESCAPED_TEXT = re.compile(r"^\s*(?:\{|b?['\"])|\(most recent call last\):\\n")
_QUOTE = re.compile(r"^\s*b?['\"]")
_ESCAPED_END = re.compile(r"(?<!\\)(?:\\r)?\\n")
_ESCAPED_SIGN = re.compile(r"\\([\"'\\])")
# The keys under which Docker and JSON loggers store the message.
_MESSAGE = re.compile(r"^(?:log|msg|line|text|event)$|message|error|exc|stack|trace|output|detail")
_ENTITY = re.compile(r"&(?:quot|apos|lt|gt|amp|nbsp|#\d+|#x[\da-f]+);", re.IGNORECASE)
# Word processors and chats replace plain blanks and quotes by these; editors add a byte order mark.
_SIGNS = str.maketrans("\u00a0\u2018\u2019\u201c\u201d", " ''\"\"", "\ufeff")
_CONSOLES = (80, 120)  # default widths of terminals
# PowerShell wraps stderr at the width of its window; its own lines tell that, and not the width.
_POWERSHELL = re.compile(r"^\s*\+ (?:CategoryInfo|FullyQualifiedErrorId) +: ")
_SHELL_LINE = re.compile(r"^\s*\+ |^\S+ : |^\S.*\b\d+ .*: ?\d+$")
_CALM = ("warned", "mild", "harmless", "handled")
_MOST_PARTS = 50  # more lines of that width in a row are data, not one wrapped line


def normalize_log(lines: Sequence[Line]) -> list[Line]:
    """Return lines without prefixes, wrapping, escapes and a common margin; numbers are kept."""
    bare = [
        Line(line.number, _bare(text.translate(_SIGNS)))
        for line in _unwrapped(lines)
        for text in _unescaped(line.text)
    ]
    bare = [each for line in _aligned(bare) for each in (line, _english(line)) if each]
    raw = {line.number: line.text for line in lines}
    bare = [_joined(*pair) for pair in pairwise([*(_named(x, raw) for x in bare), Line(0, "")])]
    margin = min((len(x.text) - len(x.text.lstrip()) for x in bare if x.text), default=0)
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
    return Line(line.number, f"{found['name']}: {after.text.strip()}".rstrip()) if found else line


@cache
def _messages() -> re.Pattern[str]:
    known = data("failures")["exceptions"].items()
    names = "|".join(rf"(?P<{name}>{said})" for name, said in known)
    return re.compile(rf"(?:{any_of('caught').pattern})?(?:{any_of('as_repr').pattern}|{names})")


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
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    for _ in range(_MOST_PREFIXES):
        found = any_of("before").match(text)
        if not found or not found.end():
            break
        text = _BOX_END.sub("", text[found.end() :])
    text = text.rstrip()
    return text[:-1] if text.endswith("`") and text.count("`") % 2 else text  # a quotation's end


def _unescaped(text: str) -> list[str]:
    """Split a line that holds a whole text: a JSON object, or a text with escaped line ends."""
    if text.startswith("{") and (values := _json(text)):
        return [part for value in values for part in value.splitlines()]
    if "\\n" not in text or not _ESCAPED_TEXT.search(text):
        return [text]
    text = _QUOTE.sub("", text)
    return [_ESCAPED_SIGN.sub(r"\1", part) for part in _ESCAPED_END.split(text)]


def _json(text: str) -> list[str]:
    """Return the messages of a JSON object; nothing if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    values = [found[key] for key in found if _MESSAGE.search(key) and isinstance(found[key], str)]
    return [value.encode("utf-8", "replace").decode() for value in values]


def _unwrapped(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines, and after the parts of a line that a terminal wrapped the whole line."""
    # The parts too: that the longest line is exactly as wide as a terminal may be chance.
    powershell = any(_POWERSHELL.search(line.text) for line in lines)
    own = (line.text for line in lines if not (powershell and _SHELL_LINE.match(line.text)))
    width = max(map(len, own), default=0)
    wrapped = powershell or width in _CONSOLES
    parts: list[Line] = []
    for line in [*lines, None]:
        if line:
            yield line
        full = wrapped and line is not None and len(line.text) == width
        if line and (full or parts):
            parts.append(line)
        if not full:
            if 1 < len(parts) <= _MOST_PARTS:
                yield Line(parts[0].number, "".join(part.text for part in parts))
            parts = []
