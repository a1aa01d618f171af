"""The layout of a project's folders."""

import os
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from provision.core.errors import UsageError
from provision.core.hashing import sha256_bytes
from provision.core.home import home_folder
from provision.core.program import program_name

CURRENT = "current"  # below a target's generations, the link to the one in use
RECORD = "provision.json"  # in a generation, what it was built from
PACKAGE = Path(__file__).resolve().parents[1]


# Not a dataclass, which loads slower than a build with nothing to do.
class Project(NamedTuple):
    """A folder with specs, locks, checks, and the environments built from them."""

    root: Path

    @property
    def specs(self) -> Path:
        """The folder of the specs."""
        return self.root / "envs"

    @property
    def catalog(self) -> Path:
        """The folder of the committed facts; :func:`fact` adds the shipped ones."""
        return self.root / "envs" / "catalog"

    @property
    def smoke(self) -> Path:
        """The folder of the checks: the shipped ones, unless the project has a suite itself."""
        own = self.root / "smoke"  # which may be anything in other repositories
        suite = (own / "run.py").is_file() and (own / "pytest.ini").is_file()
        return own if suite else shipped().root / "smoke"

    @property
    def evidence(self) -> Path:
        """The folder of signed evidence and, in ``keys``, of the public keys that count."""
        return self.root / "docs" / "evidence"

    @property
    def archives(self) -> Path:
        """The folder in which downloaded conda packages are kept for the next build."""
        return self.root / ".cache" / "conda"

    @property
    def variants(self) -> Path:
        """Wheels with a variant label (PEP 825), which uv gets under another name."""
        return self.root / ".cache" / "variants"

    @property
    def wheelhouse(self) -> Path:
        """The folder of the wheels that were built from source."""
        return self.root / "wheelhouse"

    @property
    def private(self) -> Path | None:
        """The user's own folder for this project, which nobody else writes to; None without a home."""
        if sys.platform == "win32":
            variable, usual = "LOCALAPPDATA", "AppData/Local"
        else:  # https://specifications.freedesktop.org/basedir-spec/latest/
            variable, usual = "XDG_STATE_HOME", ".local/state"
        base = Path(os.environ.get(variable, ""))
        if not base.is_absolute():  # by that specification, a relative one is ignored
            home = home_folder()
            if home is None:
                return None
            base = home / usual
        name = sha256_bytes(os.fsencode(self.root.resolve()))[:16]
        return base / "provision" / name

    def lock(self, target: str) -> Path:
        """Return the folder of a target's lock."""
        return self.root / "lockfiles" / target

    def environments(self, target: str) -> Path:
        """Return the folder of a target's generations."""
        return self.root / ".envs" / target


@cache
def shipped() -> Project:
    """Return what comes with the toolkit: catalogs, targets with locks, checks, image files."""
    # In a wheel; in a checkout they are the checkout's own folders.
    data = PACKAGE / "shipped"
    return Project(data if data.is_dir() else PACKAGE.parent)


def fact(catalog: Path, name: str) -> Path:
    """Return a file of a catalog: the project's own, or else the shipped one."""
    own = catalog / name
    common = shipped().catalog / name
    return common if common.is_file() and not own.is_file() else own


def find_project(start: Path) -> Project:
    """Return the project that contains a folder, or raise UsageError."""
    # Programs that get its paths run in other folders, and find it only while each folder on its
    # path exists: `..` would add one that has nothing to do with it.
    start = start.resolve() if ".." in start.parts else start.absolute()
    for folder in (start, *start.parents):
        specs = folder / "envs"
        # conda has folders of this name too, without files.
        if (specs / "catalog").is_dir() or any(specs.glob("*.toml")):
            return Project(folder)
    raise UsageError(
        f"no project in {start} or above",
        cause="a project has a folder envs/ with specs",
        remedy=f"`{program_name()} init` makes one of this folder; --project names another",
    )
