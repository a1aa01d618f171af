"""The variables that a process gets: a build's by an allow-list, a user's program's by a deny-list.

A verdict must not depend on a stray setting, so builds and checks get only what is known. A
user's own program gets the user's own variables, except those that replace what it loads.
"""

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from provision.core.errors import UsageError
from provision.core.findings import toml_table
from provision.core.prefix import scripts_folder

# The root of what is active: a virtual environment, a conda prefix, oneAPI after setvars.
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX", "ONEAPI_ROOT")
_TABLES = toml_table(Path(__file__).with_suffix(".toml"))
PROXIES = tuple(_TABLES["proxies"])
_FALLBACK: dict[str, list[str]] = _TABLES["fallback"]


def clean_environment(
    base: Mapping[str, str] | None = None,
    *,
    prefix: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return ``extra`` and what is allowed by name of ``base``, by default this process's own."""
    base = os.environ if base is None else base
    known = (*_TABLES["kept"], *_TABLES["compiler"], *PROXIES)
    kept = {
        n: v
        for n, v in base.items()
        if n.upper() in known or n.upper().startswith("LC_")
    }
    for name in [name for name in kept if name.upper() in _TABLES["compiler"]]:
        kept[name] = os.pathsep.join(_outside_active(base, kept[name]))
    kept["PATH"] = _search_path(base, prefix)
    if "SSL_CERT_FILE" not in kept and (bundle := base.get("PIP_CERT")):
        kept["SSL_CERT_FILE"] = bundle  # pip's name for the same setting
    return {name: value for name, value in kept.items() if value} | dict(extra or {})


def program_environment(
    base: Mapping[str, str],
    prefix: Path,
    set_by_spec: Mapping[str, str],
    keep: Collection[str],
) -> tuple[dict[str, str], list[str]]:
    """Return the environment of a user's program, and the names of the variables that it lacks."""
    # The variables of the spec win over the caller's, but not over those named in ``keep``.
    wanted = set(map(_folded, keep))
    passed = {n: v for n, v in base.items() if _folded(n) in wanted or not _pollutes(n)}
    active = {n: v for n, v in base.items() if _folded(n) not in wanted}
    passed["PATH"] = _search_path(active, prefix)
    # A conda prefix, unlike a virtual environment, would load packages from the user's site.
    result = {"PYTHONNOUSERSITE": "1", **passed}
    result |= {
        n: v for n, v in set_by_spec.items() if not (_folded(n) in wanted and n in base)
    }
    return result, sorted(n for n in base if n != "PATH" and result.get(n) != base[n])


def fallback_settings(base: Mapping[str, str], accelerator: str) -> dict[str, str]:
    """Return the variables by which torch computes on the CPU what a device has no kernel for."""
    names = _FALLBACK.get(accelerator, [])
    return {name: base[name] for name in names if base.get(name, "0") not in ("", "0")}


def _folded(name: str) -> str:
    return name.upper() if sys.platform == "win32" else name


def _pollutes(name: str) -> bool:
    upper = name.upper()
    if any(upper in names for names in _FALLBACK.values()):
        return True
    dropped = upper in _TABLES["dropped"] or upper.startswith(
        tuple(_TABLES["dropped-prefixes"])
    )
    return dropped and upper not in _TABLES["harmless"]


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
    active = [root for name in _ACTIVE if (root := base.get(name, "").rstrip(os.sep))]
    entries = [entry for entry in paths.split(os.pathsep) if entry]
    return [
        e
        for e in entries
        if not any(e == a or e.startswith(a + os.sep) for a in active)
    ]


def _program_folders(prefix: Path) -> list[Path]:
    if sys.platform == "win32" and (prefix / "conda-meta").is_dir():
        # What `conda activate` puts on PATH; Windows searches PATH for DLLs as well.
        inner = ("mingw-w64/bin", "usr/bin", "bin")
        return [
            prefix,
            *(prefix / "Library" / name for name in inner),
            scripts_folder(prefix),
        ]
    return [scripts_folder(prefix)]
