"""The layout of a project's folders."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from provision.core.errors import UsageError

CURRENT = "current"  # below a target's generations, the link to the one in use
RECORD = "provision.json"  # in a generation, what it was built from


class Project(NamedTuple):  # not a dataclass, which loads slower than a build with nothing to do
    """A folder with specs, locks, checks, and the environments built from them."""

    root: Path

    @property
    def specs(self) -> Path:
        """The folder of the specs."""
        return self.root / "envs"

    @property
    def catalog(self) -> Path:
        """The folder of the committed facts."""
        return self.root / "envs" / "catalog"

    @property
    def smoke(self) -> Path:
        """The folder of the checks."""
        return self.root / "smoke"

    @property
    def evidence(self) -> Path:
        """The folder of signed evidence and, in ``keys``, of the public keys that count."""
        return self.root / "docs" / "evidence"

    @property
    def archives(self) -> Path:
        """The folder in which downloaded conda packages are kept for the next build."""
        return self.root / ".cache" / "conda"

    @property
    def wheelhouse(self) -> Path:
        """The folder of the wheels that were built from source."""
        return self.root / "wheelhouse"

    def lock(self, target: str) -> Path:
        """Return the folder of a target's lock."""
        return self.root / "lockfiles" / target

    def environments(self, target: str) -> Path:
        """Return the folder of a target's generations."""
        return self.root / ".envs" / target


def find_project(start: Path) -> Project:
    """Return the project that contains a folder, or else the checkout that contains this module.

    Raises:
        UsageError: Neither holds specs.
    """
    # Programs that get its paths run in other folders, and find it only while each folder on its
    # path exists: `..` would add one that has nothing to do with it.
    start = start.resolve() if ".." in start.parts else start.absolute()
    # The toolkit is installed in editable mode, so its package lies in the clone. The clone comes
    # last: a project elsewhere can be used with its toolkit.
    checkout = Path(__file__).resolve().parents[2]
    for folder in (start, *start.parents, checkout):
        if (folder / "envs" / "catalog").is_dir():
            return Project(folder)
    raise UsageError(
        f"no project in {start} or above",
        cause="a project has a folder envs/ with specs and catalog",
        remedy="change into your clone, or name it with --project",
    )
