"""Numbers as text for people."""

from __future__ import annotations


def size(count: float) -> str:
    """Return a number of bytes with a decimal unit."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 file`` and ``2 files``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
