"""What is kept of a log: everything of small ones, little of huge ones, and always the end."""

from __future__ import annotations

import base64
import io
import random
import string
import sys
import tracemalloc
from functools import partial

import pytest

from provision.commands.diagnose import read_log_file
from provision.doctor import diagnose_log, sampling
from provision.doctor.sampling import Line, sample
from tests.calls import count_calls, untraced

END = b"Traceback (most recent call last):\nKeyError: 'xpu:0'\n"


class Endless(io.RawIOBase):
    """A stream that repeats a block up to a size and then gives its end; noise never repeats."""

    def __init__(self, block: bytes, size: int, end: bytes) -> None:
        self._block, self._left, self._end = block, size, end
        self.given = self.largest = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        self.largest = max(self.largest, len(buffer))
        part = self._part(len(buffer))
        buffer[: len(part)] = part
        self.given += len(part)
        return len(part)

    def _part(self, size: int) -> bytes:
        if self._left > 0:
            part = self._block[:size]
            if self._block is NOISE:
                letters = random.Random(self._left).sample(LETTERS, len(LETTERS))
                part = part.translate(bytes.maketrans(LETTERS, bytes(letters)))
            self._left -= len(part)
            return part
        end, self._end = self._end, b""
        return end


SIZE = 1 << 20
LETTERS = string.ascii_letters.encode()
NOISE = base64.encodebytes(random.Random(2026).randbytes(390_000))
TRAINING = b"".join(
    b"step %d loss=%d.%d lr=1e-4 12.1 it/s\n" % (i, i, i) for i in range(15_000)
)


BLOCKS = {
    "training": TRAINING,
    "one line": b"x" * 2**19,
    "binary": bytes(range(256)) * 2048,
    "errors": b"%s\n" % (b"an error: nothing found, " * 8) * 2500,
    "never the same": NOISE,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "never the same" else pytest.mark.slow)
        for name in BLOCKS
    ],
)
def test_a_huge_log_is_read_once_and_takes_little_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "_TEMPLATES", 20_000)
    log = Endless(BLOCKS[name], SIZE, END)
    tracemalloc.start(1)
    with untraced():
        found = diagnose_log(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[0].code == "accelerate-offload-keyerror"
    assert peak < 24 << 20
    assert SIZE <= log.given <= SIZE + len(BLOCKS[name]) + len(END)
    assert log.largest <= 1 << 19


@pytest.mark.parametrize("name", ["training", "never the same"])
def test_of_a_longer_log_no_more_is_kept_and_the_work_is_in_proportion(
    name: str,
) -> None:
    kept = list[Line]()

    def read(size: int) -> None:
        kept[:] = sample(Endless(BLOCKS[name], size, END))

    few, more, many = (
        count_calls(partial(read, size)) for size in (SIZE // 2, SIZE, 2 * SIZE)
    )
    assert len(kept) < 20_000
    assert many - more <= 2.05 * (more - few) + 100


def test_of_long_lines_the_last_mebibyte_is_kept() -> None:
    dice = random.Random(1)
    lines = ["".join(dice.choices(string.ascii_letters, k=3000)) for _ in range(900)]
    kept = sample("\n".join(lines))
    assert 1 << 20 < sum(len(line.text) for line in kept) < 3 << 19
    assert kept[-1] == (900, lines[-1])


def test_small_logs_are_kept_whole_with_their_numbers() -> None:
    assert [(line.number, line.text) for line in sample("a\n\nb")] == [
        (1, "a"),
        (2, ""),
        (3, "b"),
    ]


def test_numbers_go_on_in_huge_logs() -> None:
    lines = sample(io.BytesIO(b"step 1\n" * 300_000 + b"end"))
    assert (lines[-1].number, lines[-1].text) == (300_001, "end")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8", "utf-8-sig"])
def test_encodings(encoding: str) -> None:
    data = "[WinError 126] 找不到指定的模块。\nKeyError: 'xpu:0'".encode(encoding)
    if encoding == "utf-16-le":
        data = b"\xff\xfe" + data
    assert "KeyError: 'xpu:0'" in [line.text for line in sample(io.BytesIO(data))]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("gbk", "'nvidia-smi' 不是内部或外部命令"),
        ("cp932", "'nvidia-smi' は、内部コマンドまたは外部コマンド、"),
        ("utf-16", "'nvidia-smi' 不是内部或外部命令"),
    ],
)
def test_a_missing_command_is_known_in_the_code_pages_of_windows(
    encoding: str, text: str
) -> None:
    assert diagnose_log(io.BytesIO(text.encode(encoding)))[0].code == "driver-missing"


def test_progress_bars_and_colours() -> None:
    text = "10%|#   |\r20%|##  |\r\n\x1b[31mKeyError: 'xpu:0'\x1b[0m\n"
    assert [line.text for line in sample(text)] == [
        "10%|#   |",
        "20%|##  |",
        "KeyError: 'xpu:0'",
    ]


def test_lone_surrogates_do_not_raise() -> None:
    diagnose_log("\ud800 KeyError: 'xpu:0'")


def test_a_dash_takes_the_log_from_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(END)))
    assert [line.text for line in read_log_file("-").raw] == END.decode().splitlines()
