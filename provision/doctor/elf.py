"""ELF files of 64-bit machines, read in place: the libraries that they import, and from where."""

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

from provision.core.limits import open_regular

# What reading garbage raises.
BROKEN = (OSError, ValueError, OverflowError, struct.error)
_LOAD, _DYNAMIC = 1, 2  # types of segments
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29  # tags of the dynamic segment


class Elf:
    """One file: the libraries that it needs, and its search folders. Garbage raises ``BROKEN``."""

    def __init__(self, path: str | Path) -> None:
        with open_regular(path) as stream:
            self._data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(path)
        headers, sections = self._read("<QQ", 32)
        size, count, section_size, section_count = self._read("<4H", 54)
        end = sections + section_size * section_count  # they come last
        self.is_whole = len(self._data) >= end
        segments = [self._read("<IIQQQQ", headers + size * n) for n in range(count)]
        tags = list[tuple[int, int]]()
        for kind, _, offset, _, _, length in segments:
            if kind == _DYNAMIC:
                table = self._data[offset : offset + length // 16 * 16]
                tags += struct.iter_unpack("<QQ", table)
        strings = _place(dict(tags).get(_STRINGS, 0), segments)
        self.needed = list[str]()
        self.folders = list[str]()
        for tag, place in tags:
            if tag == _NEEDED:
                self.needed.append(self._text(strings + place))
            elif tag in (_RPATH, _RUNPATH):
                folders = self._text(strings + place).split(":")
                self.folders += filter(None, folders)

    def _read(self, form: str, place: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self._data, place)

    def _text(self, start: int) -> str:
        end = self._data.find(b"\0", start)
        return self._data[start:end].decode("utf-8", "replace")


def _place(address: int, segments: Sequence[tuple[int, ...]]) -> int:
    """Return where in the file an address is, as loaded segments map it."""
    for kind, _, offset, start, _, length in segments:
        if kind == _LOAD and start <= address < start + length:
            return address - start + offset
    return 0
