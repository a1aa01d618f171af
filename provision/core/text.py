"""Text for people and JSON for programs; what comes from elsewhere is made harmless here."""

import difflib
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from provision.core.privacy import redact

# Control characters but for tab and newline, marks that reorder or hide text (bidirectional
# controls, zero width, tags), separators of lines, and lone surrogates of undecodable file names.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def harmless(text: str) -> str:
    r"""Return a text without credentials, whose control characters are written as ``\x1b``."""
    # A log, a file name or a server's answer could otherwise set a terminal's title or clipboard,
    # or draw over what was printed before.
    return _STEERING.sub(_escaped, redact(text))


def _escaped(sign: re.Match[str]) -> str:
    return sign[0].encode("unicode_escape").decode()


def json_text(document: object, indent: int | None = 1) -> str:
    """Return a document as JSON that every reader accepts, with a newline; NaN becomes a text."""
    return json.dumps(_valid(document), indent=indent, allow_nan=False) + "\n"


def _valid(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    if isinstance(value, dict):
        return {_valid(str(key)): _valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    if isinstance(value, str):  # UTF-8 has no lone surrogates
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value


def size(count: float) -> str:
    """Return a number of bytes with a decimal unit."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return the first of some lines, and how many there are more."""
    first = list(lines[:most])
    if lines[most:]:
        first.append(f"… and {len(lines) - most} more")
    return first


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the name of some that a misspelt one may stand for, or ""."""
    return next(iter(several_nearest(word, known)), "")


def several_nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return the names of some that a misspelt one may stand for, the nearest first."""
    return difflib.get_close_matches(word, known)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 file`` and ``2 files``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
