"""Normalization of pasted logs: the lines without what loggers, containers and chats add."""

import json
from collections.abc import Sequence

from provision.doctor.failures import any_of
from provision.doctor.sampling import Line

_MOST_PREFIXES = 5  # nested, such as docker compose and a logger in a quotation
# The keys under which Docker and JSON loggers store what a program printed.
_MESSAGES = ("log", "msg", "message", "error", "exception", "traceback", "stack")


def normalize_log(lines: Sequence[Line]) -> list[Line]:
    """Return lines without prefixes, escapes and a common margin; numbers are kept."""
    bare = []
    margins = []
    for number, packed in lines:
        for part in _unpacked(packed):
            text = _without_prefixes(part)
            bare.append(Line(number, text))
            if text:
                margins.append(len(text) - len(text.lstrip()))
    margin = min(margins, default=0)
    return [Line(number, text[margin:]) for number, text in bare]


def _without_prefixes(text: str) -> str:
    for _ in range(_MOST_PREFIXES):
        prefix = any_of("before").match(text)
        if not prefix or not prefix.end():
            break
        text = text[prefix.end() :]
    return text.rstrip(" │┃║\r\t")


def _unpacked(text: str) -> list[str]:
    """Return the lines of a JSON object's messages, or of a text with escaped line ends."""
    if text.startswith("{"):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            return [text]
        messages = [row[key] for key in _MESSAGES if isinstance(row.get(key), str)]
        return "\n".join(messages).splitlines() or [text]
    if r"(most recent call last):\n" in text:
        return text.replace(r"\"", '"').split(r"\n")
    return [text]
