"""Sampling of logs: a small log is kept whole, of a huge one its start and its distinct lines."""

import codecs
import contextlib
import io
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from provision.core.limits import STREAM, bounded

_HEAD = 1 << 17  # signs; versions, devices and first warnings are printed at the start
_TAIL, _TAIL_LINES = 1 << 20, 8_000  # signs, and lines
_LINE = 4_000  # a longer line loses its middle; pip lists all versions of a package in one line
_BLOCK = 1 << 17  # signs that are read at a time
_TEMPLATES = 200_000  # distinct lines to remember
_COLOUR = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\^\[)\[[0-9;?]*[A-Za-z]|\[\d\d?(?:;\d+)*m(?!\])"
)


class Line(NamedTuple):
    """One line of a log and its number, counted from 1."""

    number: int
    text: str


def sample(source: str | BinaryIO) -> list[Line]:
    """Return the lines of a log that can matter, in order.

    The first 128 KiB are kept whole. After it a line is kept only if no line of an earlier block
    is equal without digits, and of these only the last 8,000, or the last MiB: the error that ends
    a program is at the end, and a training loop repeats its lines. Memory and the time to search
    what is kept stay bounded for any input: binary data, one line of gigabytes, lines that never
    repeat. OSError: a pipe or device does not end.
    """
    if isinstance(source, str):
        source = io.BytesIO(source.encode("utf-8", "surrogatepass"))
    head = []
    tail: deque[Line] = deque(maxlen=_TAIL_LINES)
    templates = set[int]()
    read, first = 0, 1
    for block in _blocks(source):
        lines = block.split("\n")
        numbered = enumerate(lines, first)
        first += len(lines)
        if read < _HEAD:
            read += len(block)
            head += [_line(number, text) for number, text in numbered]
            continue
        shapes = [hash(shape) for shape in _without_digits(block).split(b"\n")]
        new = set(shapes) - templates
        if not new:  # as in most blocks of a long log
            continue
        if len(templates) > _TEMPLATES:
            templates.clear()
        templates |= new
        for (number, text), shape in zip(numbered, shapes, strict=True):
            if shape in new:
                tail.append(_line(number, text))
    _shorten(tail)
    return [*head, *tail]


def _shorten(tail: deque[Line]) -> None:
    """Keep the last lines up to a limit of signs: each pattern is searched in all of them."""
    size = sum(len(line.text) for line in tail)
    while size > _TAIL:
        size -= len(tail.popleft().text)


def _without_digits(block: str) -> bytes:
    return block.encode().translate(None, b"0123456789")


def _line(number: int, text: str) -> Line:
    if len(text) > _LINE:
        text = f"{text[: _LINE // 2]} ... {text[-_LINE // 2 :]}"
    return Line(number, _COLOUR.sub("", text))


def _blocks(source: BinaryIO) -> Iterator[str]:
    """Yield whole lines, some at a time; a progress bar's carriage return ends a line too."""
    buffered = io.BufferedReader(cast(io.RawIOBase, source), _BLOCK)
    encoding = "utf-8-sig"
    if buffered.peek(2).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"  # of PowerShell
    stream = io.TextIOWrapper(buffered, encoding, "replace")
    blocks = iter(lambda: stream.read(_BLOCK) + stream.readline(_BLOCK), "")
    if not _is_file(source):
        blocks = bounded(blocks, STREAM, "the log")
    try:
        for block in blocks:
            yield block.removesuffix("\n")
    finally:
        stream.detach().detach()  # the caller closes the file


def _is_file(source: BinaryIO) -> bool:
    """Whether a stream has an end: a file, or a stream in memory, which has no number."""
    with contextlib.suppress(OSError):
        return stat.S_ISREG(os.fstat(source.fileno()).st_mode)
    return True
