"""The result of the verb ``explain``: why a package is in the lock of a target, in this version."""

from dataclasses import dataclass
from typing import Literal

from provision.core.errors import ProvisionError

Layer = Literal["pip", "conda", "own", "none"]
Source = Literal["spec", "inherited", "file"]


@dataclass(frozen=True, slots=True)
class LockedFile:
    """The file that is locked for some targets."""

    targets: tuple[str, ...]
    """Their names."""
    name: str
    """Name of the wheel, or of conda's archive."""
    size: int | None
    """Bytes; null where the lock has none."""
    sha256: str
    """Of the file."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Through whom a package is required, up to a line of the project."""

    packages: tuple[str, ...]
    """From what requires it to what the line requires; empty where the line requires it itself."""
    line: str
    """As the line says it."""
    place: str
    """The file of the line, and its number."""
    source: Source
    """`spec`: the target's own; `inherited`: of a spec that it extends; `file`: of another file."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits the versions of a package."""

    by: str
    """What sets it: the place of a line, or a package with its version."""
    kind: Literal["line", "constraint", "override", "package"]
    """An override replaces what lines and packages require."""
    versions: str | None
    """Such as `>=2,<3`; empty: any version. null: neither lock nor catalog nor environment has it."""


@dataclass(frozen=True, slots=True)
class NewerRelease:
    """A release of the catalog that is newer than what is locked."""

    version: str
    """Its version."""
    held_by: tuple[str, ...]
    """What rules it out; empty where nothing that is known does."""


@dataclass(frozen=True, slots=True)
class Change:
    """What would change the version, or remove the package."""

    do: str
    """A command, or a sentence about a line; of several targets that of the first."""
    effect: str
    """What it does."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One package in the locks of some targets, where all of this is the same."""

    targets: tuple[str, ...]
    """Their names."""
    package: str
    """The name that was asked for, normalised."""
    layer: Layer = "none"
    """`own`: a package of the project, which is not locked; `none`: it is not in the lock."""
    version: str = ""
    """What is locked."""
    files: tuple[LockedFile, ...] = ()
    """What is locked; of several platforms, several files."""
    index: str = ""
    """A catalog's name, `default`, or `wheelhouse`; of conda, the channel."""
    assigned: str = ""
    """Where the spec assigns the package to the index; empty where it does not."""
    variant: str = ""
    """Label of the wheel variant (PEP 825); empty of a wheel that is none."""
    variants: tuple[str, ...] = ()
    """Labels of the other variants that the catalog has of this version."""
    source: str = ""
    """What it was built from, where it comes from no index."""
    cutoff: str = ""
    """Uploads of this day or later do not count; empty of a catalog, which has no cut-off."""
    cutoff_place: str = ""
    """The line that says so."""
    required_by: tuple[str, ...] = ()
    """The packages that require it."""
    why: tuple[Chain, ...] = ()
    """Through whom it is required, the shortest way first."""
    limits: tuple[Limit, ...] = ()
    """What limits its version."""
    newer: tuple[NewerRelease, ...] | None = None
    """Releases of the catalog that are newer; null of the default index, which is not asked."""
    notes: tuple[str, ...] = ()
    """What else there is to know: stale locks, known wrong numbers, why it is not in the lock."""
    changes: tuple[Change, ...] = ()
    """What would change it."""
    error: ProvisionError | None = None
    """Why nothing can be told."""
