"""The lines of the RECORD file of a wheel (PEP 376, PEP 627)."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple


class RecordEntry(NamedTuple):
    """One line of a RECORD.

    An environment has some 20,000 of them, and most are only compared by path and size: so it is a
    tuple of the text as it stands, and size and digest are decoded on access.

    Attributes:
        path: Relative to site-packages, with forward slashes.
        hash: Such as ``sha256=bD8…``; empty where the RECORD gives none (of itself, for instance).
        length: Bytes in decimal; empty where the RECORD gives none.
    """

    path: str
    hash: str
    length: str

    @property
    def size(self) -> int | None:
        """Bytes; None where the RECORD gives none."""
        return int(self.length) if self.length.isdecimal() and len(self.length) < 16 else None

    @property
    def sha256(self) -> str | None:
        """Hexadecimal; None where the RECORD gives none, or another kind."""
        algorithm, _, value = self.hash.partition("=")
        if algorithm != "sha256":
            return None
        try:  # RECORD leaves out the padding (PEP 376, PEP 427)
            return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
        except (binascii.Error, ValueError):
            return None
