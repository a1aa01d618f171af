"""Package folders of an interpreter, in the layouts of Python, Windows and Debian."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from provision.core.prefix import site_packages
from provision.environment.reading import read_text

if TYPE_CHECKING:
    from pathlib import Path


def prefix_of(python: Path) -> Path:
    """Return the folder of an environment, given its interpreter or the folder itself."""
    if python.is_dir():
        return python
    if python.parent.name in ("bin", "Scripts"):
        return python.parent.parent
    return python.parent  # conda on Windows has python.exe in the prefix itself


def sites_of(python: Path) -> list[Path]:
    """Return the folders from which an interpreter imports installed packages, in search order.

    Nothing for a path that does not exist, or that has no such folder.
    """
    try:
        if not python.exists() and not python.is_symlink():
            return []
        prefix = prefix_of(python)
        config = config_of(prefix)
        minor = _minor(python, config)
        found = _folders(prefix, minor)
        if config.get("include-system-site-packages") == "true" and "home" in config:
            found += _folders(prefix_of(prefix / config["home"] / "python"), minor)
    except (OSError, ValueError):
        return []
    return found


def config_of(prefix: Path) -> dict[str, str]:
    """Return the settings of a ``pyvenv.cfg``; none where there is no such file."""
    pairs = (line.partition("=") for line in read_text(prefix / "pyvenv.cfg").splitlines())
    return {key.strip().lower(): value.strip() for key, sign, value in pairs if sign}


def _minor(python: Path, config: dict[str, str]) -> str:
    """Return the interpreter's minor version, such as ``3.11``; "" if it is unknown."""
    version = config.get("version_info") or config.get("version") or ""
    found = re.match(r"3\.\d+", version) or re.search(r"3\.\d+$", os.path.realpath(python))
    return found[0] if found else ""


def _folders(prefix: Path, minor: str) -> list[Path]:
    known = (
        prefix / "Lib" / "site-packages",
        prefix / "lib" / f"python{minor}" / "site-packages",
        # Debian's Python: packages of pip, then those of apt, in the order of sys.path.
        prefix / "local" / "lib" / f"python{minor}" / "dist-packages",
        prefix / "lib" / "python3" / "dist-packages",
    )
    found = [folder for folder in known if folder.is_dir()]
    other = None if found else site_packages(prefix)
    return found or ([other] if other else [])
