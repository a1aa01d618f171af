"""Reads of files and folders of an environment that may be broken: damage gives an empty result."""

import os
from pathlib import Path

from provision.core.limits import open_regular

# Metadata is a few kilobytes. A file in its place may be of any size, and must not fill the memory.
_MOST_BYTES = 1 << 20


def read_text(path: Path, limit: int = _MOST_BYTES) -> str:
    """Return the first bytes of a file as text, the last for a limit below 0; "" if unreadable."""
    return read_bytes(path, limit).decode("utf-8", "replace")


def read_bytes(path: Path, limit: int = _MOST_BYTES) -> bytes:
    """Return the first bytes of a file, the last for a limit below 0; none if it is unreadable."""
    try:
        with open_regular(path) as stream:
            if limit < 0:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size + limit))
            return stream.read(abs(limit))
    except (OSError, ValueError):  # ValueError: the path holds a NUL
        return b""


def venv_settings(prefix: Path) -> dict[str, str]:
    """Return the settings of a ``pyvenv.cfg``; none where there is no such file."""
    settings = {}
    for line in read_text(prefix / "pyvenv.cfg").splitlines():
        key, sign, value = line.partition("=")
        if sign:
            settings[key.strip().lower()] = value.strip()
    return settings


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
    except (OSError, ValueError):
        return []
