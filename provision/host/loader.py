"""Where Linux's dynamic loader finds a library, without loading it.

Loading a GPU's driver to ask for its version takes long, and can hang with the driver. The order is
that of ld.so(8), without a program's own RUNPATH: ``LD_LIBRARY_PATH``, ldconfig's cache, folders.
"""

import re
import struct
from collections.abc import Iterator, Sequence

# The cache's form since glibc 2.2, which an older one may precede: `cache_file_new` and
# `file_entry_new` in sysdeps/generic/dl-cache.h.
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sI24x")  # with the number of entries
_ENTRY = struct.Struct("<iIIIQ")  # flags, offsets of name and path, two of the system
# FLAG_ELF_LIBC6 with FLAG_X8664_LIB64 and FLAG_AARCH64_LIB64: other entries are for programs of
# 32 bits, which no Python of a target is.
_OURS = {0x0303, 0x0A03}


def places(
    name: str, variable: str, cache: bytes, folders: Sequence[str]
) -> Iterator[str]:
    """Yield the paths at which the loader looks for a library, relative to the root.

    ``variable`` is the value of LD_LIBRARY_PATH, ``cache`` the content of /etc/ld.so.cache.
    """
    for folder in re.split("[:;]", variable):
        # Relative ones depend on where a program is started.
        if folder.startswith("/"):
            yield f"{folder.strip('/')}/{name}"
    for path in cached(cache, name):
        yield path.strip("/")
    for folder in folders:
        yield f"{folder}/{name}"


def cached(cache: bytes, name: str) -> Iterator[str]:
    """Yield the paths of a library in ldconfig's cache, the preferred first; damage has none."""
    start = cache.find(_MAGIC)
    if start < 0 or len(cache) < start + _HEADER.size:
        return
    cache = cache[start:]  # offsets count from here
    _, count = _HEADER.unpack_from(cache)
    entries = cache[_HEADER.size :][: count * _ENTRY.size]
    whole = len(entries) - len(entries) % _ENTRY.size
    for flags, key, path, _, _ in _ENTRY.iter_unpack(entries[:whole]):
        if flags in _OURS and _text(cache, key) == name:
            yield _text(cache, path)


def _text(cache: bytes, offset: int) -> str:
    """Return the text at an offset, which ends with a NUL."""
    end = cache.find(b"\0", offset)
    return cache[offset:end].decode("utf-8", "replace")
