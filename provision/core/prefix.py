"""The layout of an environment, a venv or a conda prefix, of either platform."""

import contextlib
import sys
from pathlib import Path


def site_packages(prefix: Path) -> Path | None:
    """Return the site-packages folder of an environment of either platform, or None."""
    windows = prefix / "Lib" / "site-packages"
    if windows.is_dir():
        return windows
    linux = sorted(prefix.glob("lib/python3.*/site-packages"))
    return linux[0] if linux else None


def dist_info_names(prefix: Path) -> set[str]:
    """Return the names of the ``.dist-info`` folders: one directory listing, no file read."""
    site = site_packages(prefix)
    return {path.name for path in site.glob("*.dist-info")} if site else set()


def scripts_folder(prefix: Path) -> Path:
    """Return the folder of a virtual environment that holds its programs, on this platform."""
    return prefix / ("Scripts" if sys.platform == "win32" else "bin")


def environment_python(prefix: Path) -> Path:
    """Return the interpreter of an environment: a venv's, or a Windows conda prefix's."""
    if sys.platform != "win32":
        return prefix / "bin" / "python"
    in_venv = prefix / "Scripts" / "python.exe"
    return in_venv if in_venv.is_file() else prefix / "python.exe"


def misplaced(prefix: Path, built_at: str) -> str:
    """Return why the programs of an environment cannot start where it is; empty if they can."""
    # Its scripts name the path at which it was built. A link that leads from there to here is good.
    with contextlib.suppress(OSError):  # nothing is there any more
        if not built_at or prefix.samefile(built_at):
            return ""
    return f"was built at {built_at}, and its programs start only there"
