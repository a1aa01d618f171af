"""Damage to files, chosen by a number: the same number always gives the same damage."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

# Texts that have broken readers: paths, numbers, terminal and template language, parser limits.
CANARY = "@CANARY@"  # stands for the path of a file that nothing may touch
PATHS = (
    "../canary/a",
    "../../canary/a",
    "../../../../canary/a",
    "..%2fcanary%2fa",
    CANARY,
)
HOSTILE = (
    *PATHS * 6,
    "..\\canary",
    "a\0b",
    "",
    "\n",
    "\u2028",
    "\x1b]0;x\x07",
    "\u202e",
    "\ud800",
    "$HOME",
    "$(touch ../canary/b)",
    "`id`",
    "%s%n",
    "{0.__class__}",
    "-1",
    "-e .",
    "--index-url=http://127.0.0.1:9/",
    "1e999",
    "9" * 5000,
    "²",
    "null",
    "!!python/object/apply:os.system [id]",
    "&a [*a]",
    "<script>",
    "A" * 70_000,
    "2099-01-01T00:00:00Z",
    "con",
    "file:///etc/passwd",
    "http://\udcff",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    float("inf"),
    float("nan"),
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


def damaged_json(content: bytes, chance: random.Random) -> bytes:
    """Return a JSON file with a value, key or part replaced; sometimes with any fault."""
    if chance.random() < 0.25:
        return damaged(content, chance)
    document = json.loads(content)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if places:
            _break(*chance.choice(places), chance)
    return json.dumps(document).encode("utf-8", "surrogatepass")


def _break(holder: Any, key: Any, chance: random.Random) -> None:  # noqa: ANN401
    kind = chance.randrange(5)
    if kind == 0 and isinstance(holder, dict):
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[chance.choice(HOSTILE)] = copy.deepcopy(holder[key])
    elif kind == 2 and isinstance(holder, list):
        holder.extend([copy.deepcopy(holder[key])] * chance.choice((1, 50)))
    else:
        # A copy: a later fault may change what an earlier one has put there.
        holder[key] = copy.deepcopy(chance.choice(VALUES))


def _places(part: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    keys: list[Any] = []
    if isinstance(part, dict):
        keys = list(part)
    elif isinstance(part, list):
        keys = list(range(len(part)))
    for key in keys:
        yield part, key
        yield from _places(part[key])


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
    # Cut: three times 500 times a long line would be more than the memory.
    lines.insert(0, chance.choice(lines)[:10_000] * chance.choice((1, 500)))
    return b"".join(lines)


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
    text = chance.choice(HOSTILE).encode("utf-8", "surrogatepass")
    return content[:at] + text + content[at:]


def _deep(_: bytes, chance: random.Random) -> bytes:
    return chance.choice((b"[", b'{"a":', b"- ", b"{a: ")) * DEEP


def _deep_toml(_: bytes, __: random.Random) -> bytes:
    return b"x = " + b"[" * DEEP


def _encoding(content: bytes, _: random.Random) -> bytes:
    return content.decode("utf-8", "replace").encode("utf-16")


_KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_flip, _drop_line, _insert) * 2,
    *(_value,) * 4,
    _cut,
    _repeat_line,
    _deep,
    _deep_toml,
    _encoding,
)
