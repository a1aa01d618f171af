"""The layout of an environment, a venv or a conda prefix, of either platform."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


def site_packages(prefix: Path) -> Path | None:
    """Return the site-packages folder of an environment of either platform, or None."""
    windows = prefix / "Lib" / "site-packages"
    if windows.is_dir():
        return windows
    return next(iter(sorted(prefix.glob("lib/python3.*/site-packages"))), None)


def dist_info_names(site: Path, without: Collection[str] = ()) -> set[str]:
    """Return the names of the ``.dist-info`` folders: one directory listing, no file read.

    Args:
        site: The folder.
        without: Distributions that are left out, normalised.
    """
    names = {path.name for path in site.glob("*.dist-info")}
    return {name for name in names if not without or distribution_name(name) not in without}


def distribution_name(folder: str) -> str:
    """Return the normalised name in the name of a ``.dist-info`` folder: ``a_b-1.0`` is ``a-b``."""
    # packaging's canonicalize_name (PEP 503), without its import: folders are only listed here.
    return re.sub(r"[-_.]+", "-", folder.partition("-")[0]).lower()
