"""The files of an environment, compared with what its installers recorded of them."""

import contextlib
import os
import re
from collections import defaultdict
from pathlib import Path

from provision.doctor.elf import BROKEN, Elf
from provision.doctor.environment import STACK, Environment
from provision.environment.installed import InstalledDistribution as Dist
from provision.environment.installed import distributions_in
from provision.lockfile.wheel_record import RecordEntry

_MIXED = 20  # changed modules of one package; patches by hand change fewer
_CODE = re.compile(r"\.(py|pyd|dll|so(\.[\d.]+)?)$")
# Files of a wheel that no program needs, or that others rewrite at will.
_OPTIONAL = re.compile(
    r"^\.\./|^/|\.dist-info/|(^|/)(__pycache__|tests?|testdata|docs?|examples?|include|man)/"
    r"|(^|/)__pycache__$"
)
# These move files of a wheel after it was recorded, as INSTALLER names them.
_DISTRIBUTORS = ("an unknown tool", "conda", "debian", "rpm", "dnf", "guix", "nix")
Faults = dict[str, dict[Dist, list[str]]]  # files by case, and by package
Owners = list[tuple[Dist, RecordEntry]]  # of one file, as their records say


def read_installation(env: Environment) -> Faults:
    """Return what is not as it was installed."""
    faults: Faults = defaultdict(lambda: defaultdict(list))
    changed: dict[Dist, list[str]] = defaultdict(list)
    for path, owners in _owners(env).items():
        dist, entry = owners[0]
        size = _size(path)
        if _is_overwritten(path, owners):
            for owner, its_entry in owners:
                faults["overwritten"][owner].append(its_entry.path)
        elif _is_damaged(path, size, entry):
            faults["damaged"][dist].append(entry.path)
        elif path.endswith(".py") and size not in (None, entry.size):
            changed[dist].append(entry.path)
    # Of another version, which was copied over this one.
    for dist, paths in changed.items():
        if len(paths) >= _MIXED:
            faults["damaged"][dist] += paths
    return faults


def _is_overwritten(path: str, owners: Owners) -> bool:
    # Packages of one namespace share the file that makes it one.
    hashes = {entry.hash for _, entry in owners}
    return len(hashes) > 1 and not path.endswith("__init__.py")


def _owners(env: Environment) -> dict[str, Owners]:
    """Return the code of an environment by path, each file with those who installed it."""
    owners: dict[str, Owners] = defaultdict(list)
    for dist in env.dists:
        if len(env.distributions[dist.name]) > 1 or dist.installer in _DISTRIBUTORS:
            continue
        for entry in dist.entries:
            if _CODE.search(entry.path) and not _OPTIONAL.search(entry.path):
                owners[f"{dist.folder.parent}/{entry.path}"].append((dist, entry))
    return owners


def _is_damaged(path: str, size: int | None, entry: RecordEntry) -> bool:
    """Whether a file is gone or empty, or a library ends too early."""
    if size is None:
        # Bytecode may be there in place of its source.
        return _size(f"{path}c") is None
    if entry.size in (None, size):
        return False
    if size == 0:
        return True
    if ".so" not in path:
        return False
    try:
        return not Elf(path).is_whole
    except BROKEN:
        return True


def _size(path: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return os.stat(path).st_size  # noqa: PTH116 - there are 50,000
    return None


def shadows(env: Environment, path: str) -> list[str]:
    """Return what Python imports from the folders of a PYTHONPATH in place of the environment's."""
    copies = []
    for folder in filter(None, path.split(";" if env.windows else ":")):
        if folder.rstrip("/\\") == str(env.site):
            continue
        names = distributions_in([folder])
        for name in STACK:
            if name in names or _hides(folder, env.site, name):
                copies.append(f"PYTHONPATH: {folder} has {name}")
    return copies


def _hides(folder: str, site: Path, name: str) -> bool:
    """Whether a folder has another copy of an installed package."""
    module = Path(name.replace("-", "_"), "__init__.py")
    other, installed = Path(folder) / module, site / module
    if not (other.is_file() and installed.is_file()):
        return False
    return not other.samefile(installed)
