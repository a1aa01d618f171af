"""Reading a file tree that may be half there, unreadable or garbage, without ever raising."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tree:
    """A root folder: ``/`` of this machine, or a recorded one.

    Every method answers with something empty where the real answer cannot be had: facts that
    are missing are facts too, and a probe must not fail on them.
    """

    root: Path = Path("/")

    @property
    def live(self) -> bool:
        """Whether this is the running machine, which may be asked in other ways too."""
        return self.root == Path(self.root.anchor)

    def text(self, path: str, limit: int = 65536) -> str:
        """Return the first bytes of a file as text, stripped."""
        try:
            with (self.root / path).open("rb") as stream:
                return stream.read(limit).decode("utf-8", "replace").strip("\0 \t\r\n")
        except (OSError, ValueError):
            return ""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        try:
            return sorted(os.listdir(self.root / path))  # noqa: PTH208 - names, not paths
        except (OSError, ValueError):
            return []

    def target(self, path: str) -> str:
        """Return the last part of where a link points."""
        try:
            return Path(os.readlink(self.root / path)).name  # noqa: PTH115 - may dangle
        except (OSError, ValueError):
            return ""

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        try:
            return (self.root / path).exists()
        except (OSError, ValueError):
            return False

    def above(self, path: str) -> list[Path]:
        """Return the real folders above a path, nearest first, relative to the root."""
        try:
            real = (self.root / path).resolve().relative_to(self.root.resolve())
        except (OSError, ValueError, RuntimeError):
            return []
        return list(real.parents)
