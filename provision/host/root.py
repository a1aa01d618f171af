"""Read the files of a machine, which may be absent, unreadable or garbage, without raising."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Root:
    """The root folder of a machine: ``/`` of this one, or that of a recorded one.

    Every method returns an empty value where the file cannot be read: containers, old kernels and
    hardened systems lack files that others have, and one that is missing must not fail a probe.
    """

    path: Path = Path("/")

    @property
    def live(self) -> bool:
        """Whether this is the running machine, where system calls work too."""
        return self.path == Path(self.path.anchor)

    def text(self, path: str, limit: int = 65536) -> str:
        """Return the first bytes of a file as text, stripped."""
        try:
            with (self.path / path).open("rb") as stream:
                return stream.read(limit).decode("utf-8", "replace").strip("\0 \t\r\n")
        except (OSError, ValueError):
            return ""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        try:
            return sorted(os.listdir(self.path / path))  # noqa: PTH208 - names, not paths
        except (OSError, ValueError):
            return []

    def target(self, path: str) -> str:
        """Return the last component of the target of a symbolic link."""
        try:
            # The name is enough, and a recorded tree lacks the target.
            return Path(os.readlink(self.path / path)).name  # noqa: PTH115 - may dangle
        except (OSError, ValueError):
            return ""

    def exists(self, path: str) -> bool:
        """Whether a path exists."""
        try:
            return (self.path / path).exists()
        except (OSError, ValueError):
            return False

    def above(self, path: str) -> list[Path]:
        """Return the resolved folders above a path, nearest first, relative to the root."""
        try:
            real = (self.path / path).resolve().relative_to(self.path.resolve())
        except (OSError, ValueError, RuntimeError):
            return []
        return list(real.parents)
