"""The variables that a process gets: a build's by an allow-list, a user's program's by a deny-list.

A verdict must not depend on a stray setting, so builds and checks get only what is known. A
user's own program gets the user's own variables, except those that replace what it loads.
"""

import os
import sys
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path

from provision.core.errors import UsageError
from provision.core.findings import toml_table
from provision.core.platforms import ACCELERATORS
from provision.core.prefix import scripts_folder

# The root of what is active: a virtual environment, a conda prefix, oneAPI after setvars.
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX", "ONEAPI_ROOT")
_TABLES = toml_table(Path(__file__).with_suffix(".toml"))
PROXIES = tuple(_TABLES["proxies"])
_COMPILER = frozenset(_TABLES["compiler"])
# Which devices a process was given is kept, too; what hides a missing kernel is dropped.
_SELECTORS = chain.from_iterable(kind.selectors for kind in ACCELERATORS.values())
_FALLBACK = chain.from_iterable(kind.fallback for kind in ACCELERATORS.values())
_KEPT = {*_TABLES["kept"], *PROXIES, *_SELECTORS}
_DROPPED = {*_TABLES["dropped"], *_FALLBACK}


def chooses_devices(accelerator: str, base: Mapping[str, str]) -> bool:
    """Whether variables choose devices, so that fewer of them say nothing about the machine."""
    for name in ACCELERATORS[accelerator].selectors:
        # An order hides none.
        if not name.endswith("_DEVICE_ORDER") and base.get(name, "") not in {"", "all"}:
            return True
    return False


def clean_environment(
    base: Mapping[str, str] | None = None,
    *,
    prefix: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return ``extra`` and what is allowed by name of ``base``, by default this process's own."""
    base = os.environ if base is None else base
    # pip's name for the same setting.
    kept = {"SSL_CERT_FILE": base.get("PIP_CERT", "")}
    for name, value in base.items():
        upper = name.upper()
        if upper in _COMPILER:
            kept[name] = os.pathsep.join(_outside_active(base, value))
        elif upper in _KEPT or upper.startswith("LC_"):
            kept[name] = value or kept.get(name, "")
    kept["PATH"] = _search_path(base, prefix)
    kept = {name: value for name, value in kept.items() if value}
    return kept | dict(extra or {})


def program_environment(
    base: Mapping[str, str],
    prefix: Path,
    set_by_spec: Mapping[str, str],
    keep: Collection[str],
) -> tuple[dict[str, str], list[str]]:
    """Return the environment of a user's program, and the names of the variables that it lacks."""
    # The variables of the spec win over the caller's, but not over those named in ``keep``.
    names = set(map(_folded, keep))
    # A conda prefix, unlike a virtual environment, would load packages from the user's site.
    passed = {"PYTHONNOUSERSITE": "1"}
    unnamed = {}
    for name, value in base.items():
        if _folded(name) not in names:
            unnamed[name] = value
            if _pollutes(name):
                continue
        passed[name] = value
    passed["PATH"] = _search_path(unnamed, prefix)
    kept = {name for name in base if _folded(name) in names}
    passed |= {name: set_by_spec[name] for name in set_by_spec if name not in kept}
    changed = [name for name in base if passed.get(name) != base[name]]
    return passed, sorted(name for name in changed if name != "PATH")


def fallback_settings(base: Mapping[str, str], accelerator: str) -> dict[str, str]:
    """Return the variables by which torch computes on the CPU what a device has no kernel for."""
    names = ACCELERATORS[accelerator].fallback
    return {name: base[name] for name in names if base.get(name) not in {None, "", "0"}}


def _folded(name: str) -> str:
    return name.upper() if sys.platform == "win32" else name


def _pollutes(name: str) -> bool:
    upper = name.upper()
    if upper in _TABLES["harmless"]:
        return False
    return upper in _DROPPED or upper.startswith(tuple(_TABLES["dropped-prefixes"]))


def _search_path(base: Mapping[str, str], prefix: Path | None) -> str:
    path = _outside_active(base, base.get("PATH", os.defpath))
    if prefix is not None:
        refuse_separator(prefix)
        path[:0] = map(str, _program_folders(prefix))
    return os.pathsep.join(path)


def refuse_separator(prefix: Path) -> None:
    """Refuse a folder whose programs PATH cannot name; others of those names would run."""
    if os.pathsep in str(prefix):
        raise UsageError(
            f"no program can be run from {prefix}",
            cause=f"PATH separates folders by {os.pathsep!r}, which is in this path",
            remedy="move the project to a folder without it in its path",
        )


def _outside_active(base: Mapping[str, str], paths: str) -> list[str]:
    """Return the entries of a search path, without those of the caller's active environment."""
    # Its programs would shadow those of the environment that is run, and on Windows its DLLs too.
    # `conda activate` puts its folders into CC and INCLUDE as well, setvars into INCLUDE and LIB.
    active = []
    for name in _ACTIVE:
        if root := base.get(name, "").rstrip(os.sep):
            active.append(root + os.sep)
    outside = []
    for entry in filter(None, paths.split(os.pathsep)):
        if not (entry + os.sep).startswith(tuple(active)):
            outside.append(entry)
    return outside


def _program_folders(prefix: Path) -> list[Path]:
    if sys.platform == "win32" and (prefix / "conda-meta").is_dir():
        # What `conda activate` puts on PATH; Windows searches PATH for DLLs as well.
        library = prefix / "Library"
        inner = [library / "mingw-w64/bin", library / "usr/bin", library / "bin"]
        return [prefix, *inner, scripts_folder(prefix)]
    return [scripts_folder(prefix)]
