"""What is kept of a log: everything of small ones, little of huge ones, and always the end."""

from __future__ import annotations

import base64
import io
import random
import string
import time
import tracemalloc

import pytest

from provision.doctor import diagnose_log
from provision.doctor.sampling import sample

END = b"Traceback (most recent call last):\nKeyError: 'xpu:0'\n"


class Endless(io.RawIOBase):
    """A stream that repeats a block up to a size and then gives its end; noise never repeats."""

    def __init__(self, block: bytes, size: int, end: bytes) -> None:
        self._block, self._left, self._end = block, size, end

    def read(self, size: int = -1) -> bytes:
        if self._left > 0:
            part = self._block[: min(size, len(self._block))]
            if self._block is NOISE:
                letters = random.Random(self._left).sample(LETTERS, len(LETTERS))
                part = part.translate(bytes.maketrans(LETTERS, bytes(letters)))
            self._left -= len(part)
            return part
        end, self._end = self._end, b""
        return end


LETTERS = string.ascii_letters.encode()
NOISE = base64.encodebytes(random.Random(2026).randbytes(390_000))
TRAINING = b"".join(b"step %d loss=%d.%d lr=1e-4 12.1 it/s\n" % (i, i, i) for i in range(15_000))


@pytest.mark.parametrize(
    "block",
    [
        TRAINING,
        b"x" * 2**19,
        bytes(range(256)) * 2048,
        b"an error: nothing found\n" * 20_000,
        NOISE,
    ],
    ids=["training", "one line", "binary", "errors", "never the same"],
)
def test_200_megabytes_take_seconds_and_little_memory(block: bytes) -> None:
    tracemalloc.start(1)
    found = diagnose_log(Endless(block, 25 << 20, END))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[0].code == "accelerate-offload-keyerror"
    assert peak < 64 << 20
    assert any(_seconds(block, 200 << 20) < 3 for _ in range(3)), "three times in a row"


def _seconds(block: bytes, size: int) -> float:
    started = time.process_time()  # of this process: other work on the machine does not count
    diagnose_log(Endless(block, size, END))
    return time.process_time() - started


def test_small_logs_are_kept_whole_with_their_numbers() -> None:
    assert [(line.number, line.text) for line in sample("a\n\nb")] == [(1, "a"), (2, ""), (3, "b")]


def test_numbers_go_on_in_huge_logs() -> None:
    lines = sample(io.BytesIO(b"step 1\n" * 300_000 + b"end"))
    assert (lines[-1].number, lines[-1].text) == (300_001, "end")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8", "utf-8-sig"])
def test_encodings(encoding: str) -> None:
    data = "[WinError 126] 找不到指定的模块。\nKeyError: 'xpu:0'".encode(encoding)
    if encoding == "utf-16-le":
        data = b"\xff\xfe" + data
    assert "KeyError: 'xpu:0'" in [line.text for line in sample(io.BytesIO(data))]


def test_progress_bars_and_colours() -> None:
    text = "10%|#   |\r20%|##  |\r\n\x1b[31mKeyError: 'xpu:0'\x1b[0m\n"
    assert [line.text for line in sample(text)] == [
        "10%|#   |",
        "20%|##  |",
        "KeyError: 'xpu:0'",
    ]


def test_lone_surrogates_do_not_raise() -> None:
    diagnose_log("\ud800 KeyError: 'xpu:0'")
