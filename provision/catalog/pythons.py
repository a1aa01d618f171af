"""The catalog's Pythons, which run from any folder of a Linux: for images and bundles."""

from pathlib import Path

from provision.catalog.snapshot import Interpreter, Interpreters, load_snapshot
from provision.core.platforms import PLATFORMS

CATALOG = "python-standalone"


def pythons_for(folder: Path, platform: str) -> list[Interpreter]:
    """Return the Pythons that a catalog has for a platform."""
    if not PLATFORMS[platform].docker:  # those of the catalog are Linux's
        return []
    machine = PLATFORMS[platform].machine
    files = load_snapshot(folder, CATALOG, Interpreters).files
    return [file for file in files if file.processor == machine]


def newest(pythons: list[Interpreter], version: str) -> Interpreter | None:
    """Return the newest of some Pythons that is of a version, such as 3.11 or 3.11.9."""
    fitting = [file for file in pythons if f"{file.version}.".startswith(f"{version}.")]
    return max(fitting, key=lambda file: (file.version, file.release), default=None)
