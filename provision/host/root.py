"""The input of a probe: a machine's files, which may be absent, unreadable or garbage."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from provision.catalog.devices import Devices
from provision.core.findings import toml_table
from provision.core.platforms import PLATFORMS
from provision.environment.reading import list_names, read_bytes, read_text
from provision.host import loader
from provision.host.model import User

TABLES = toml_table(Path(__file__).with_name("machine.toml"))
_OF_PLATFORMS = [platform.libraries for platform in PLATFORMS.values()]
_LIBRARY_FOLDERS = [f"usr/lib/{name}" for name in _OF_PLATFORMS if name]
_LIBRARY_FOLDERS += TABLES["libraries"]
_CACHE = "etc/ld.so.cache"  # of ldconfig; a megabyte where much is installed
_LARGEST_CACHE = 16 << 20
_MOST_LINKS = 40  # one after the other, as in Linux


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

    def chain(self, path: str) -> list[str]:
        """Return a path and those that links lead to from it; none if no file is at the end.

        An absolute target is one of this root.
        """
        paths = [path]
        while len(paths) <= _MOST_LINKS:
            try:
                target = os.readlink(self.path / paths[-1])  # noqa: PTH115 - as above
            except (OSError, ValueError):
                is_file = os.path.isfile(self.path / paths[-1])  # noqa: PTH113 - as below
                return paths if is_file else []
            folder = PurePosixPath(paths[-1]).parent
            paths.append(str(folder / target).lstrip("/"))
        return []

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
        names = []
        for folder in _LIBRARY_FOLDERS:
            names += self.root.names(folder)
        return names

    def loaded(self, name: str) -> list[str]:
        """Return the file names that can tell the version of the library that the loader takes."""
        for place in self._places(name):
            paths = [PurePosixPath(path) for path in self.root.chain(place)]
            if paths and paths[-1].name == name:
                # A copy or a mount: Apptainer puts those of both names into one folder.
                return self.root.names(str(paths[-1].parent))
            if paths:
                return [path.name for path in paths]
        return self.libraries

    def _places(self, name: str) -> Iterator[str]:
        """Return the paths at which the loader looks for a library, relative to the root."""
        variable = self.environ.get("LD_LIBRARY_PATH", "")
        cache = read_bytes(self.root.path / _CACHE, _LARGEST_CACHE)
        return loader.places(name, variable, cache, _LIBRARY_FOLDERS)
