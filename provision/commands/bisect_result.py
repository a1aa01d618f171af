"""What a search for the first bad release is asked for, and what comes of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provision.commands.bisect_search import State
from provision.commands.lock import ArtifactChange
from provision.core.project import Project
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import Lock
from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """What to search, and by what a release is good or bad."""

    project: Project
    target: Target
    lock: Lock  # the present one
    supply: ArtifactSources
    layers: dict[str, str]  # of this host
    check: str  # an id; or
    command: tuple[str, ...]  # a program
    package: str = ""  # or what changed
    good: str = ""  # a release, or the last one that is known to be good
    bad: str = ""  # a release, or that of the present lock
    keep: bool = False  # what was built

    @property
    def home(self) -> Path:
        """The folder of the target's environments."""
        return self.project.environments(self.target.name)


@dataclass(frozen=True, slots=True)
class Release:
    """One release of the package that is searched."""

    version: str
    """Its version."""
    lock: str | None
    """Digest of the lock with it, SHA-256; null where it has none."""
    download: int
    """Bytes to download at most, as far as the lock has sizes; uv's cache may hold some."""
    unsized: int
    """How many files to download have no size in the lock."""
    disk: int
    """Bytes of the environment, approximately."""
    built: bool
    """Whether an environment of the lock is on this machine."""
    outcome: Literal["good", "bad", "skipped", "not tried"] = "not tried"
    """What the check or the program said."""
    why: str = ""
    """Why it is good, bad or skipped; empty where it was not tried."""


@dataclass(frozen=True, slots=True)
class DriverRelease:
    """A driver set of the catalog: an image takes it in place of the one of the spec."""

    name: str
    """As `drivers` in `[docker]` of the spec names it."""
    version: str
    """Version of its driver."""
    download: int
    """Bytes of its packages, as far as the catalog has sizes."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """The releases between a good and a bad end, and which of them is the first bad one."""

    target: str
    """Name of the target."""
    package: str
    """The distribution of which releases are compared."""
    check: str
    """The check that is run on each; empty where a program is."""
    command: tuple[str, ...]
    """The program that is run in each, with its arguments; empty where a check is."""
    releases: tuple[Release, ...]
    """From the good end to the bad one."""
    builds: int
    """How many environments are built at most, if each release gives a verdict."""
    download: int
    """Bytes to download for these at most, as far as the locks have sizes."""
    unsized: int
    """How many files to download for these at most have no size in the locks."""
    offered: str
    """What has these releases: an index, a catalog or wheelhouses. It may lack others."""
    state: State | Literal["plan"] = "plan"
    """`found`; `unstable`, where a release did not end twice in the same way; `range`, where releases
    beside the first bad one could not be tried; `good`, where
    the bad end is not bad; `bad`, where the good end is; `unknown`, where an end could not be
    tried; `plan` with `--plan`.
    """
    good: str | None = None
    """The last good release; null where none is known."""
    bad: str | None = None
    """The first release that was seen to be bad; null where none was."""
    suspects: tuple[str, ...] = ()
    """The releases of which one is the first bad one: a single one where it is found."""
    changes: tuple[ArtifactChange, ...] = ()
    """What differs between the locks of `good` and `bad`, by name."""
    remedy: tuple[str, ...] = ()
    """The lines of the spec that lock `good`, each with its table; empty without an answer."""
    drivers: tuple[DriverRelease, ...] = ()
    """The driver sets that an image of the target could have; each image is built by hand."""
