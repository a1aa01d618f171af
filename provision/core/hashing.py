"""SHA-256 of bytes and of a file; as a program, of the files whose paths it reads."""

import hashlib
import json
import os
import sys
from pathlib import Path

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # Windows would translate line ends
_PIECE = 1 << 18  # bytes; stays in the processor's cache between reading and hashing


def sha256_bytes(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    # A file object allocates a buffer, a quarter of the time for thousands of small files.
    digest = hashlib.sha256()
    descriptor = os.open(path, _READ)
    try:
        while piece := os.read(descriptor, _PIECE):
            digest.update(piece)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


if __name__ == "__main__":  # started by `provision.core.tree_hashing`
    json.dump([sha256_file(path) for path in json.load(sys.stdin)], sys.stdout)
