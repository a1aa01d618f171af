"""ELF files of 64-bit machines, read in place: imports, and symbols that they lack or define."""

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from provision.core.limits import open_regular

BROKEN = (
    OSError,
    ValueError,
    struct.error,
)  # what reading a file that is garbage raises
_NEEDED, _STRTAB, _SYMTAB, _STRSZ, _RPATH, _RUNPATH, _GNU_HASH = (
    1,
    5,
    6,
    10,
    15,
    29,
    0x6FFFFEF5,
)

# What only torch defines: its namespaces as C++ writes them into names, and its stable C functions.
_OF_TORCH = re.compile(
    rb"_Z[A-Z]*(?:3c10|2at|5torch|6caffe2)[0-9IN]|aoti_torch_"
    rb"|torch_(?:call|library|list|get|set|new|delete)_"
)


class Elf:
    """One file: the libraries that it needs, and its search folders. Garbage raises ``BROKEN``."""

    def __init__(self, path: str | Path) -> None:
        with open_regular(path) as stream:
            self._data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(path)
        headers, sections = self._read("<QQ", 32)
        size, count, section_size, section_count = self._read("<4H", 54)
        self.whole = (
            len(self._data) >= sections + section_size * section_count
        )  # they come last
        segments = [
            self._read("<IIQQQQ", headers + size * number) for number in range(count)
        ]
        dynamic = b"".join(
            self._data[s[2] : s[2] + s[5] // 16 * 16] for s in segments if s[0] == 2
        )
        tags = list(struct.iter_unpack("<QQ", dynamic))
        # Where in the file each table is: the tags give addresses, loaded segments map them.
        places = {
            tag: value - s[3] + s[2]
            for tag, value in tags
            for s in segments
            if s[0] == 1 and s[3] <= value < s[3] + s[5]
        }
        self._strings, self._symbols = places.get(_STRTAB, 0), places.get(_SYMTAB, 0)
        self._hashes, self._size = places.get(_GNU_HASH, 0), dict(tags).get(_STRSZ, 0)
        self.needed = [
            self._text(v).decode("utf-8", "replace") for t, v in tags if t == _NEEDED
        ]
        folders = b":".join(self._text(v) for t, v in tags if t in {_RPATH, _RUNPATH})
        self.folders = [
            part for part in folders.decode("utf-8", "replace").split(":") if part
        ]

    def cxx(self) -> set[str]:
        """Return the versions of the C++ library that it names: needs, or is."""
        strings = self._data[self._strings : self._strings + self._size]
        return {
            found.decode() for found in re.findall(rb"GLIBCXX_[\d.]+(?=\0)", strings)
        }

    def undefined(self) -> Iterator[bytes]:
        """Yield the symbols that a torch has to define, but not the weak ones."""
        strings = self._data[self._strings : self._strings + self._size]
        if self._hashes and _OF_TORCH.search(strings):
            # Those that it does not define come first; the hash table says where the others begin.
            for number in range(1, self._read("<4I", self._hashes)[1]):
                name, info, _, section = self._read(
                    "<IBBH", self._symbols + 24 * number
                )
                if (
                    section == 0
                    and info >> 4 == 1
                    and _OF_TORCH.match(text := self._text(name))
                ):
                    yield text

    def defines(self, name: bytes) -> bool:
        """Whether it defines a symbol, by its hash table, as the loader looks it up."""
        buckets, first, bloom, _ = self._read("<4I", self._hashes)
        wanted, start = 5381, self._hashes + 16 + 8 * bloom
        for byte in name:
            wanted = (wanted * 33 + byte) & 0xFFFFFFFF
        (number,) = self._read("<I", start + 4 * (wanted % buckets))
        while number >= first:
            (found,) = self._read("<I", start + 4 * (buckets + number - first))
            (symbol,) = self._read("<I", self._symbols + 24 * number)
            if found | 1 == wanted | 1 and self._text(symbol) == name:
                return True
            number = (
                0 if found & 1 else number + 1
            )  # the lowest bit marks the last of a bucket
        return False

    def _read(self, form: str, place: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self._data, place)

    def _text(self, offset: int) -> bytes:
        start = self._strings + offset
        return self._data[start : self._data.find(b"\0", start)]
