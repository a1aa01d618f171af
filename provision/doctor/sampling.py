"""Sampling of logs: a small log is kept whole, of a huge one its start and its distinct lines."""

import codecs
import contextlib
import io
import itertools
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from provision.core.limits import STREAM, bounded

_BLOCK = 1 << 17
_HEAD_BYTES = 1 << 17  # versions, devices and first warnings are printed at the start
_TAIL_LINES = 8_000
_LINE = 4_000  # a longer line loses its middle; pip lists all versions of a package in one line
_TEMPLATES = (
    200_000  # distinct lines to remember; a log with more does not repeat itself
)
_LATE_BLOCKS = 4  # the end of such a log, which is kept whole
_DIGITS = b"0123456789"
_COLOUR = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\^\[)\[[0-9;?]*[A-Za-z]|\[\d\d?(?:;\d+)*m(?!\])"
)


class Line(NamedTuple):
    """One line of a log and its number, counted from 1."""

    number: int
    text: str


def sample(source: str | BinaryIO) -> list[Line]:
    """Return the lines of a log that can matter, in order.

    The first 128 KiB are kept whole. After it a line is kept only if no earlier line is equal
    without digits, and of these only the last 8,000: the error that ends a program is at the end,
    and a training loop repeats its lines. Of a log that does not repeat itself the end is kept.
    Memory stays bounded for any input: binary data, one line of gigabytes, UTF-16 from PowerShell.
    """
    if isinstance(source, str):
        source = io.BytesIO(source.encode("utf-8", "surrogatepass"))
    head: list[Line] = []
    tail: deque[tuple[int, bytes]] = deque(maxlen=_TAIL_LINES)
    late: deque[tuple[int, bytes]] = deque(maxlen=_LATE_BLOCKS)
    seen: set[bytes] = set()
    read, number = 0, 1
    for block in _whole_lines(_utf8(source)):
        if read < _HEAD_BYTES:
            head += [
                _line(number + i, line) for i, line in enumerate(block.split(b"\n"))
            ]
        elif len(seen) < _TEMPLATES:
            tail.extend(_fresh(block, number, seen))
        else:
            late.append((number, block))
        read += len(block) + 1
        number += block.count(b"\n") + 1
    for first, block in late:
        tail.extend(enumerate(block.split(b"\n"), first))
    return head + [_line(*raw) for raw in tail]


def _fresh(block: bytes, number: int, seen: set[bytes]) -> list[tuple[int, bytes]]:
    """Return the numbered lines, undecoded, whose template is new; most blocks have none."""
    templates = block.translate(None, _DIGITS).split(b"\n")
    new = (
        set(templates) - seen
    )  # no Python loop over the lines of a block that repeats itself
    if not new:
        return []
    seen |= {template for template in new if len(template) < _LINE}
    numbered = enumerate(block.split(b"\n"), number)
    return [
        pair
        for pair, template in zip(numbered, templates, strict=True)
        if template in new
    ]


def _line(number: int, raw: bytes) -> Line:
    if len(raw) > _LINE:
        raw = raw[: _LINE // 2] + b" ... " + raw[-_LINE // 2 :]
    return Line(number, _COLOUR.sub("", raw.decode("utf-8", "replace")))


def _whole_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield blocks that end at a line end; a progress bar's carriage return ends a line too."""
    rest = b""
    for block in blocks:
        text = rest + block
        if b"\r" in block:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut = text.rfind(b"\n")
        if cut < 0 and len(text) < 4 * _BLOCK:
            rest = text
            continue
        whole, rest = (text[:cut], text[cut + 1 :]) if cut >= 0 else (text, b"")
        yield whole
    if rest:
        yield rest


def _utf8(stream: BinaryIO) -> Iterator[bytes]:
    blocks = _blocks(stream)
    first = next(blocks, b"")
    encoding = _wide(first)
    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
    for block in itertools.chain([first], blocks):
        yield decoder.decode(block).encode("utf-8", "replace") if decoder else block


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the blocks of a file to its end; a pipe or a device may have none."""
    blocks = iter(lambda: stream.read(_BLOCK), b"")
    with contextlib.suppress(OSError):  # a stream in memory has no number
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return bounded(blocks, STREAM, "the log")
    return blocks


def _wide(start: bytes) -> str | None:
    """Return the encoding of UTF-16 text, which may lack its byte order mark; None of others."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    high = start[1:200:2]
    return (
        "utf-16-le" if 2 * high.count(0) > len(high) > start[:200:2].count(0) else None
    )
