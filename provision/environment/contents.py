"""What is in an environment, read once for everything that is compared with it."""

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.filesystem import extended
from provision.core.limits import read_parsed
from provision.core.prefix import site_packages
from provision.core.project import RECORD
from provision.environment import conda_meta
from provision.environment.conda_meta import InstalledCondaPackage
from provision.environment.installed import (
    InstalledDistribution,
    installed_distributions,
)

Package = InstalledDistribution | InstalledCondaPackage


@dataclass(frozen=True, slots=True)
class Contents:
    """The packages and the files of an environment."""

    prefix: Path
    site: Path  # its site-packages
    distributions: list[InstalledDistribution]  # but for those of conda packages
    conda: list[InstalledCondaPackage]
    sizes: dict[str, int]  # bytes of each file, by its path relative to site-packages

    @property
    def packages(self) -> list[Package]:
        """All packages of both layers."""
        return [*self.distributions, *self.conda]

    def without(self, local: Collection[str]) -> list[Package]:
        """Return the packages but for own ones, whose files are known and not compared."""
        return [package for package in self.packages if package.name not in local]

    def size(self, name: str) -> int:
        """Return the bytes of a file by its path from site-packages, or -1 where there is none."""
        if name in self.sizes:
            return self.sizes[name]
        path = self.site / name
        return path.stat().st_size if path.is_file() else -1


def read_contents(prefix: Path, target: str) -> Contents:
    """Read an environment; ToolError if there is none."""
    prefix = _as_built(prefix)
    site = site_packages(prefix)
    if site is None:
        raise ToolError(
            f"{prefix} is not a Python environment",
            remedy=f"build {target} again",
        )
    conda = conda_meta.installed_conda_packages(prefix, site)
    # A conda package of a Python library has a .dist-info as well; conda-meta answers for it.
    of_conda = conda_meta.conda_dist_infos(conda)
    distributions = []
    for dist in installed_distributions(site):
        if dist.folder.name not in of_conda:
            distributions.append(dist)
    sizes = _list_files(site, with_stdlib=bool(conda))
    return Contents(prefix, site, distributions, conda, sizes)


def _as_built(prefix: Path) -> Path:
    """Return the path by which an environment was built, where that leads to it: scripts name it."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        built = Path(read_parsed(prefix / RECORD, json.loads)["path"])
        if built.samefile(prefix):
            return built
    return prefix


def _list_files(site: Path, *, with_stdlib: bool) -> dict[str, int]:
    """Return every file and its size; bytecode folders are left out."""
    # The standard library is in the folder above. A conda prefix has its own, which is locked.
    if not with_stdlib:
        return dict(_walk(site))
    inside = f"{site.name}/"
    sizes = {}
    for path, size in _walk(site.parent):
        name = path.removeprefix(inside)
        sizes[f"../{path}" if name == path else name] = size
    return sizes


def _walk(top: Path) -> Iterator[tuple[str, int]]:
    # scandir() instead of rglob(): the kind and, on Windows, the size come with the listing.
    folders = [(extended(top), "")]
    while folders:
        folder, base = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    # Python writes bytecode whenever somebody imports a module.
                    if entry.name != "__pycache__":
                        folders.append((entry.path, f"{base}{entry.name}/"))
                else:
                    size = -1  # of what is no file: a pipe, a device, a link to nothing
                    with contextlib.suppress(OSError):  # a link in a circle
                        size = entry.stat().st_size if entry.is_file() else -1
                    yield base + entry.name, size
