"""The input of a probe: a machine's files, which may be absent, unreadable or garbage."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from provision.catalog.devices import Devices
from provision.core.findings import toml_table
from provision.core.platforms import PLATFORMS
from provision.environment.reading import list_names, read_text
from provision.host.model import User

TABLES = toml_table(Path(__file__).with_name("machine.toml"))
_OF_PLATFORMS = [platform.libraries for platform in PLATFORMS.values()]
_LIBRARY_FOLDERS = [f"usr/lib/{name}" for name in _OF_PLATFORMS if name]
_LIBRARY_FOLDERS += TABLES["libraries"]


@dataclass(frozen=True, slots=True)
class Root:
    """The root folder of a machine: ``/`` of this one, or that of a recorded one.

    Every method returns an empty value for what cannot be read, as in containers and old kernels.
    """

    path: Path = Path("/")

    @property
    def live(self) -> bool:
        """Whether this is the running machine, where system calls work too."""
        return self.path == Path(self.path.anchor)

    def text(self, path: str, limit: int = 65536) -> str:
        """Return the first bytes of a file as text, stripped; the last ones for a limit below 0."""
        return read_text(self.path / path, limit).strip("\0 \t\r\n")

    def search(self, pattern: str, path: str) -> re.Match[str] | None:
        """Return the first match in a file, of whose lines ``^`` and ``$`` are the ends."""
        return re.search(pattern, self.text(path), re.MULTILINE)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        return list_names(self.path / path)

    def target(self, path: str) -> str:
        """Return the last component of the target of a symbolic link."""
        try:
            # The name is enough, and a recorded tree lacks the target.
            return Path(os.readlink(self.path / path)).name  # noqa: PTH115 - may dangle
        except (OSError, ValueError):
            return ""

    def exists(self, path: str) -> bool:
        """Whether a path exists."""
        return os.path.exists(self.path / path)  # noqa: PTH110 - Path.exists() can raise


@dataclass(frozen=True)
class Machine:
    """A Linux machine to probe, running or recorded; without a user, this process's counts."""

    root: Root
    devices: Devices
    environ: Mapping[str, str]
    user: User | None = None

    @cached_property
    def libraries(self) -> list[str]:
        """The file names in the system's library folders."""
        # Not a lookup through the loader: the versions are in the names, and loading a GPU driver
        # to ask it would take long, and can hang with the driver.
        names = []
        for folder in _LIBRARY_FOLDERS:
            names += self.root.names(folder)
        return names

    def loaded(self, name: str) -> list[str]:
        """Return the file that a library's link leads to, or else all names of libraries."""
        for folder in _LIBRARY_FOLDERS:
            linked = self.root.target(f"{folder}/{name}")
            # Debian's leads to /etc/alternatives first.
            if linked.startswith(name[:-1]):
                return [name, linked]
        return self.libraries
