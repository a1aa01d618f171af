"""What a target can be for: the platforms and accelerators of ``platforms.toml``."""

import json
import platform
import sys
from pathlib import Path
from typing import Any, NamedTuple

from provision.core.findings import toml_table

LEAST_GLIBC = 28  # 2.28: what the tags of Linux in platforms.toml begin with


class Platform(NamedTuple):
    """A platform; the comments of the table say what the keys are."""

    words: str
    system: str
    machine: str
    arch: str
    marker: str
    markers: dict[str, str]
    command: str
    uv: str
    python: str
    tags: list[str]
    virtual: dict[str, str]
    docker: str = ""
    libraries: str = ""
    resolver: dict[str, str] = {}  # noqa: RUF012 - nothing changes it

    def with_glibc(self, glibc: str | None) -> "Platform":
        """Return the same for machines whose glibc is at least this new, such as ``2.34``."""
        if glibc is None:
            return self
        minor = int(glibc.partition(".")[2])
        numbers = range(minor, LEAST_GLIBC, -1)
        newer = [f"manylinux_2_{number}_{self.arch}" for number in numbers]
        uv = self.uv.replace(f"_{LEAST_GLIBC}", f"_{minor}")
        return self._replace(uv=uv, tags=newer + self.tags)


class Accelerator(NamedTuple):
    """An accelerator, the CPU included; the comments of the table say what the keys are."""

    vendor: str = ""
    build: str = ""
    selectors: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    container: str = ""
    variables: dict[str, str] = {}  # noqa: RUF012 - nothing changes it
    user_space: bool = False


class Vendor(NamedTuple):
    """A vendor of GPUs; the comments of the table say what the keys are."""

    maker: str
    pci: str = ""
    drivers: tuple[str, ...] = ()
    module: str = ""


def _platform(row: dict[str, Any]) -> Platform:
    text = json.dumps(_TABLES["system"][row["system"]] | row)
    text = text.replace("{machine}", row["machine"]).replace("{arch}", row["arch"])
    return Platform(**json.loads(text))


_TABLES = toml_table(Path(__file__).with_suffix(".toml"))
# Of which catalogs hold wheels: what a project may choose between.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {name: _platform(row) for name, row in _TABLES["platform"].items()}
ACCELERATORS = {
    name: Accelerator(**row) for name, row in _TABLES["accelerator"].items()
}
VENDORS = {name: Vendor(**row) for name, row in _TABLES["vendor"].items()}
MAKERS = {name: vendor.maker for name, vendor in VENDORS.items()}


def markers(platform: str, python: str) -> dict[str, str]:
    """Return the environment markers (PEP 508) of a CPython minor version on a platform."""
    version = {"python_version": python, "python_full_version": f"{python}.0"}
    return PLATFORMS[platform].markers | version


def this_platform() -> str:
    """Return conda's name of the platform of this process, also where no target is for it."""
    system = {"win32": "win", "darwin": "osx"}.get(sys.platform, "linux")
    machine = platform.machine().lower()
    if machine in {"x86_64", "amd64"}:
        machine = "64"
    return f"{system}-{machine}"
