"""Lines as the program printed them, whatever a log went through before it was pasted."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING

from provision.doctor.sampling import Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SUCCESS)"
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/]\d\d[-/]\d{4})"
# What others write before a line. Each takes one blank at most after itself, for indentation
# tells a traceback's parts apart.
_PREFIX = re.compile(
    r">\ ?|\s*[│┃║]\ ?|\|\ (?!\|)"  # quoted in a chat; in a box
    rf"|\[?{_DATE}[T ]{_TIME}\]?"  # loggers, with the level and the logger's name
    rf"(?:\s*[-|:]?\s*[\[(]?{_LEVEL}[\])]?(?=[\s:|-]))?(?:\s*[-|]\s*[\w.:<>]+(?=\s*[-|]\ ))*"
    r"(?:\s*(?:[-|]|:(?=\ )))?\ ?"
    rf"|{_LEVEL}\ \d\d-\d\d\ {_TIME}\ \[?[\w./]+:\d+\]\ ?"  # vLLM
    rf"|[A-Z][a-z]{{2}}\ [ \d]\d\ {_TIME}\ \S+\ \S+?(?:\[\d+\])?:\ ?"  # journald
    r"|std(?:out|err)\ [FP]\ |\#\#\[\w+\]"  # containerd; GitHub Actions
    r"|[\w.-]+\ {2,}\|\ ?"  # docker compose
    r"|\[(?:rank|default)?\d+\]:\ ?|\([\w.:+ -]*\bpid=\d+[^)]*\)\ ?",  # torchrun; Ray and vLLM
    re.VERBOSE,
)
_MOST_PREFIXES = 5
_BOX_END = re.compile(r"\s*[│┃║]$")
# A text with its line ends written out, as repr does; not a Windows path with an n.
_WRITTEN_OUT = re.compile(r"^\s*(?:\{|b?['\"])|\(most recent call last\):\\n")
_QUOTE = re.compile(r"^\s*b?['\"]")
_WRITTEN_END = re.compile(r"(?<!\\)(?:\\r)?\\n")
_WRITTEN_SIGN = re.compile(r"\\([\"'\\])")
# The keys under which Docker and loggers keep what was printed.
_MESSAGE = re.compile(r"^(?:log|msg|line|text|event)$|message|error|exc|stack|trace|output|detail")
_ENTITY = re.compile(r"&(?:quot|apos|lt|gt|amp|nbsp|#\d+|#x[\da-f]+);", re.IGNORECASE)
# Word processors and chats put these for plain signs; editors put a mark before the first line.
_SIGNS = str.maketrans("\u00a0\u2018\u2019\u201c\u201d", " ''\"\"", "\ufeff")
_CONSOLES = (80, 120)
_MOST_PARTS = 50  # more lines of one width are data


def normalize_log(lines: Sequence[Line]) -> list[Line]:
    """Return lines without what chats, loggers, containers and consoles did to them."""
    bare = [
        Line(line.number, _bare(text.translate(_SIGNS)))
        for line in _unwrapped(lines)
        for text in _written_out(line.text)
    ]
    texts = [line.text for line in bare if line.text]
    margin = min((len(text) - len(text.lstrip()) for text in texts), default=0)
    return [Line(line.number, line.text[margin:]) for line in bare] if margin else bare


def _bare(text: str) -> str:
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(text)
        if not found or not found.end():
            break
        text = _BOX_END.sub("", text[found.end() :])
    return text.rstrip()


def _written_out(text: str) -> list[str]:
    """Cut a line that holds a whole text: an object of JSON, or line ends written as signs."""
    if text.startswith("{") and (values := _json(text)):
        return [part for value in values for part in value.splitlines()]
    if "\\n" not in text or not _WRITTEN_OUT.search(text):
        return [text]
    text = _QUOTE.sub("", text)
    return [_WRITTEN_SIGN.sub(r"\1", part) for part in _WRITTEN_END.split(text)]


def _json(text: str) -> list[str]:
    """Return the messages of an object; of anything else nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    values = [found[key] for key in found if _MESSAGE.search(key) and isinstance(found[key], str)]
    return [value.encode("utf-8", "replace").decode() for value in values]


def _unwrapped(lines: Sequence[Line]) -> Iterator[Line]:
    """Add what a console cut at its width, whole again: no line is longer, some just as long.

    The parts stay, for a log may have a longest line of that length by chance.
    """
    width = max((len(line.text) for line in lines), default=0)
    parts: list[Line] = []
    for line in lines:
        yield line
        full = width in _CONSOLES and len(line.text) == width
        if full or parts:
            parts.append(line)
        if parts and not full:
            if len(parts) <= _MOST_PARTS:
                yield Line(parts[0].number, "".join(part.text for part in parts))
            parts = []
