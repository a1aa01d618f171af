"""What an image is built of: one target with its lock and the sources of its artifacts."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from provision.catalog.snapshot import DriverSet, load_snapshot
from provision.core.errors import UsageError
from provision.core.platforms import PLATFORMS
from provision.core.project import Project, shipped
from provision.image.oci import IMAGES
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import Lock
from provision.spec.model import Docker, Target


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """The image to build; UsageError for a target that has none."""

    project: Project
    target: Target
    lock: Lock
    supply: ArtifactSources
    base_image: str | None = None  # None for one of the catalog
    # Whether to add a C++ compiler and the headers, for ``torch.compile``.
    dev: bool = False

    def __post_init__(self) -> None:
        self.docker()

    def docker(self) -> Docker:
        """Return the table [docker] of the spec; UsageError if it has none."""
        target = self.target
        platform = PLATFORMS[self.target.platform]
        if target.docker is not None:
            return target.docker
        cause = "its spec has no table [docker]"
        remedy = f"add `[docker]` to envs/{target.name}.toml"
        if not platform.docker:
            cause = f"images are for Linux, and it is for {platform.words}"
            remedy = "name a target of Linux"
        raise UsageError(f"{target.name} has no images", cause=cause, remedy=remedy)

    def drivers(self) -> DriverSet | None:
        """Return the driver set that the spec names, if it does."""
        name = self.docker().drivers
        return load_snapshot(self.project.catalog, name, DriverSet) if name else None

    @property
    def name(self) -> str:
        """Name of the image, without registry and tag."""
        suffix = "-dev" if self.dev else ""
        return f"{IMAGES}{self.target.name}{suffix}"

    @property
    def tag(self) -> str:
        """Name and tag of the image; the tag is the start of the lock's digest."""
        return f"{self.name}:{self.lock.digest[:12]}"

    @property
    def context(self) -> Path:
        """The folder of the build context."""
        folder = self.name.removeprefix(IMAGES)
        return self.project.root / ".cache" / "docker" / folder

    @property
    def epoch(self) -> int:
        """The time of every file in the image, in Unix seconds: the cut-off of the lock."""
        moment = dt.datetime.combine(self.target.pip.cutoff, dt.time(), dt.UTC)
        return int(moment.timestamp())


def docker_file(name: str) -> Path:
    """Return the path of a file for images that comes with the toolkit."""
    return shipped().root / "docker" / name


def dockerfile_text() -> str:
    """Return the Dockerfile that comes with the toolkit."""
    return docker_file("Dockerfile").read_text(encoding="utf-8")


def added_layers() -> int:
    """Return the number of layers that the last stage of the Dockerfile adds to the base image."""
    last = dockerfile_text().rpartition("\nFROM ")[2]
    return sum(line.startswith(("COPY ", "WORKDIR ")) for line in last.splitlines())
