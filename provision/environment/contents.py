"""What is in an environment, read once for everything that is compared with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.prefix import site_packages
from provision.environment import conda_meta, files
from provision.environment.conda_meta import InstalledCondaPackage
from provision.environment.installed import (
    InstalledDistribution,
    installed_distributions,
)
from provision.lockfile.wheel_record import RecordEntry


@dataclass(frozen=True, slots=True)
class Contents:
    """The packages and the files of an environment."""

    prefix: Path
    site: Path  # its site-packages
    distributions: list[InstalledDistribution]  # but for those of conda packages
    conda: list[InstalledCondaPackage]
    records: dict[Path, list[RecordEntry]]  # of each package, by its folder
    sizes: dict[str, int]  # bytes of each file, by its path relative to site-packages

    @property
    def packages(self) -> list[InstalledDistribution | InstalledCondaPackage]:
        """All packages of both layers."""
        return [*self.distributions, *self.conda]


def read_contents(prefix: Path, target: str) -> Contents:
    """Read an environment; ToolError if there is none."""
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
    records = {}
    for dist in installed_distributions(site):
        if dist.folder.name not in of_conda:
            distributions.append(dist)
            records[dist.folder] = dist.entries
    records |= {package.folder: package.entries for package in conda}
    sizes = files.list_files(site, with_stdlib=bool(conda))
    return Contents(prefix, site, distributions, conda, records, sizes)
