"""TOML as a person edits it: each error, and each value, with its line and column.

tomllib says where it stopped, and of a value nothing. So a text is read line by line: a value
is in the first line up to which the text has it. Only errors need that, and only of files of
some hundred lines. The standard library alone: noxfiles read specs with it too.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

Keys = Sequence[int | str]
_MOST = 500  # lines: each takes a reading of those before it; the longest spec has 100
_WIDE = 80  # characters of a line that are shown
_LONG = 200_000  # characters: of a longer text no place is looked for
# A key of 50 parts, which tomllib reads in quadratic time, and no recursion could follow.
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){50}""")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_WORDS = {  # of tomllib, whose others say what is wrong
    "Invalid value": "this is no value: text has to be in quotes",
    "Expected newline or end of document after a statement": "something follows the value: "
    "text has to be in quotes, and each key in its own line",
    "Cannot overwrite a value": "this key is there twice",
    "Invalid statement": "this is neither a table nor a key with a value",
    "Unclosed array": "this list has no end: a `]` is missing",
    "Unterminated string": "this text has no closing quote",
    "Illegal character '\\n'": "this text has no closing quote",
}


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a text says; ValueError with the error, its place and its line."""
    if deep := _DEEP_KEY.search(text):
        number = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"line {number}: a key has more than 50 parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(_fault(text.split("\n"), str(error))) from error


def _fault(lines: Sequence[str], message: str) -> str:
    at = _AT.search(message)
    said = message[: at.start()] if at else message
    words = _WORDS.get(said, said)
    if at and at[1]:
        number = int(at[1])
        column = int(at[2])
    else:  # only at the end it is clear that something never ended: it began after what is whole
        number = _whole(lines) + 1
        column = 1
        if said == "Invalid value":
            words = "a value is missing, or the `]` of a list"
    return f"{words}\n  {_quoted(lines, number, column)}"


def _whole(lines: Sequence[str]) -> int:
    """Return how many lines can be read without the others, at most."""
    if sum(map(len, lines)) > _LONG:
        return 0
    for number in range(min(len(lines), _MOST), 0, -1):
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads("\n".join(lines[:number]))
            return number
    return 0


def place_of(text: str, keys: Keys) -> str:
    """Return line and column of a value, or of the table that lacks it, with the line itself.

    It is "" where no line says it: of a key that is missing above all tables, or in a long text.
    """
    if len(text) > _LONG:
        return ""
    lines = text.split("\n")
    for end in range(len(keys), 0, -1):
        for number, data in _grown(text):
            if _has(data, keys[:end]):
                column = _column(lines[number - 1], keys[:end])
                return _quoted(lines, number, column)
    return ""


@lru_cache(4)  # all errors of a file, and of those that it extends
def _grown(text: str) -> list[tuple[int, dict[str, Any]]]:
    return list(_beginnings(text.split("\n")))


def _beginnings(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what the text says up to each line; a list that goes on there is closed."""
    if len(lines) > _MOST:
        return
    for number in range(1, len(lines) + 1):
        for end in ("", "\n]"):
            with suppress(tomllib.TOMLDecodeError):
                yield number, tomllib.loads("\n".join(lines[:number]) + end)
                break


def _has(data: Any, keys: Keys) -> bool:  # noqa: ANN401 - TOML's values
    try:
        for key in keys:
            data = data[key]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _column(line: str, keys: Keys) -> int:
    """Return where the key of a value begins in its line, or the line itself."""
    name = next(str(key) for key in reversed(keys) if isinstance(key, str))
    match = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line)
    start = match.start() if match else len(line) - len(line.lstrip())
    return start + 1


def _quoted(lines: Sequence[str], number: int, column: int) -> str:
    line = lines[number - 1].strip() if number <= len(lines) else ""
    if len(line) > _WIDE:
        line = f"{line[:_WIDE]} …"
    return f"line {number}, column {column}: {line}"
