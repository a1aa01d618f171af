"""The layout of an environment, a venv or a conda prefix, of either platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def site_packages(prefix: Path) -> Path | None:
    """Return the site-packages folder of an environment of either platform, or None."""
    windows = prefix / "Lib" / "site-packages"
    if windows.is_dir():
        return windows
    return next(iter(sorted(prefix.glob("lib/python3.*/site-packages"))), None)


def dist_info_names(site: Path) -> set[str]:
    """Return the names of the ``.dist-info`` folders: one directory listing, no file read."""
    return {path.name for path in site.glob("*.dist-info")}
