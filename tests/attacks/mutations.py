"""Damage to files, chosen by a number: the same number always gives the same damage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

# Texts that have broken readers: paths, numbers, terminal and template language, parser limits.
CANARY = "@CANARY@"  # stands for the path of a file that nothing may touch
PATHS = (
    "../canary/a",
    "../../canary/a",
    "../../../canary/a",
    "../../../../canary/a",
    "..%2f..%2f..%2fcanary%2fa",
    CANARY,
    CANARY,
)
HOSTILE = (
    *PATHS * 4,
    "..\\canary",
    "a\0b",
    "",
    " ",
    "\n",
    "\r",
    "\u2028",
    "\x1b]0;x\x07",
    "\u202e",
    "\ud800",
    "$HOME",
    "${PATH}",
    "$(touch ../canary/b)",
    "`id`",
    "%s%n",
    "{0.__class__}",
    "{prefix}",
    "-1",
    "-e .",
    "--index-url=http://127.0.0.1:9/",
    "1e999",
    "NaN",
    "9" * 5000,
    "²",
    "0x10",
    "null",
    "true",
    "!!python/object/apply:os.system [id]",
    "&a [*a]",
    "<script>",
    "A" * 70_000,
    "2099-01-01T00:00:00Z",
    "con",
    "nul.txt",
    "file:///etc/passwd",
    "http://[::1",
    "http://\udcff",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    10**30,
    1e308,
    float("inf"),
    float("nan"),
    "",
    [],
    {},
    [[]],
    {"": {}},
    [None] * 300,
    *HOSTILE,
)
DEEP = 100_000


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return a file with one to three faults, of those that any file can have."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        content = chance.choice(_KINDS)(content, chance)
    return content


def damaged_lock(content: bytes, chance: random.Random) -> bytes:
    """Return a pip layer with one field replaced; sometimes with any fault."""
    if chance.random() < 0.4:
        return damaged(content, chance)
    field = chance.choice(
        (b"# file: ", b"# index: ", b"# via: ", b"# size: ", b"==", b"sha256:")
    )
    parts = content.split(field)
    at = chance.randrange(1, len(parts)) if len(parts) > 1 else 0
    _, end, rest = parts[at].partition(b"\n")
    parts[at] = chance.choice(HOSTILE).encode("utf-8", "surrogatepass") + end + rest
    return field.join(parts)


def damaged_json(content: bytes, chance: random.Random) -> bytes:
    """Return a JSON file with a value, key or part replaced; sometimes with any fault."""
    if chance.random() < 0.25:
        return damaged(content, chance)
    document = json.loads(content)
    for _ in range(chance.choice((1, 1, 2, 3))):
        document = _with_fault(document, chance)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _with_fault(document: Any, chance: random.Random) -> Any:  # noqa: ANN401
    places = list(_places(document))
    if not places:
        return chance.choice(VALUES)
    holder, key = chance.choice(places)
    kind = chance.randrange(5)
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[chance.choice(HOSTILE)] = holder[key]
    elif kind == 2 and isinstance(holder, list):
        holder.extend([holder[key]] * chance.choice((1, 50)))
    else:
        holder[key] = chance.choice(VALUES)
    return document


def _places(part: Any) -> Any:  # noqa: ANN401
    if isinstance(part, dict | list):
        for key, value in list(
            part.items() if isinstance(part, dict) else enumerate(part)
        ):
            yield part, key
            yield from _places(value)


def _flip(content: bytes, chance: random.Random) -> bytes:
    if not content:
        return b"\xff"
    at = chance.randrange(len(content))
    return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _drop_line(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def _repeat_line(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b"x\n"]
    at = chance.randrange(len(lines))
    return b"".join(
        lines[:at] + [lines[at]] * chance.choice((2, 500)) + lines[at + 1 :]
    )


def _value(content: bytes, chance: random.Random) -> bytes:
    """Replace what stands after a sign of assignment."""
    lines = content.splitlines(keepends=True) or [b""]
    at = chance.randrange(len(lines))
    for sign in (b": ", b" = ", b"==", b":"):
        head, found, _ = lines[at].partition(sign)
        if found:
            text = chance.choice(HOSTILE).encode("utf-8", "surrogatepass")
            quote = chance.choice((b"", b"", b"", b'"'))
            lines[at] = head + found + quote + text + quote + b"\n"
            break
    return b"".join(lines)


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return (
        content[:at]
        + chance.choice(HOSTILE).encode("utf-8", "surrogatepass")
        + content[at:]
    )


def _deep(content: bytes, chance: random.Random) -> bytes:
    opening = chance.choice((b"[", b'{"a":', b"x = [", b"- ", b"{a: "))
    return opening * DEEP if opening != b"x = [" else b"x = " + b"[" * DEEP


def _encoding(content: bytes, _: random.Random) -> bytes:
    return content.decode("utf-8", "replace").encode("utf-16")


_KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _flip,
    _cut,
    _drop_line,
    _drop_line,
    _repeat_line,
    _value,
    _value,
    _value,
    _value,
    _insert,
    _insert,
    _deep,
    _encoding,
)
