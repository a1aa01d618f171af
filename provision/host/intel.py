"""Intel's libraries outside any environment: Level Zero loader, compute-runtime, OpenCL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provision.host.model import Driver, Gpu

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.host.root import Tree

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/lib64",
    "usr/lib/wsl/lib",
)
_LOADER = re.compile(r"libze_loader\.so\.1(?:\.(\d+(?:\.\d+)*))?")
# libze_intel_gpu.so.1.<minor>.<build>, after NEO_VERSION_BUILD in level_zero/CMakeLists.txt.
_DRIVER = re.compile(r"libze_intel_gpu\.so\.1(?:\.\d+\.(\d{5,}).*)?")
_DRIVER_STORE = "usr/lib/wsl/drivers"
_INF_VERSION = re.compile(r"DriverVer\s*=\s*[\d/]+\s*,\s*([\d.]+)", re.IGNORECASE)


def libraries(tree: Tree) -> list[str]:
    """Return the names of the system's shared libraries that reach a GPU."""
    return [
        name
        for folder in LIBRARY_FOLDERS
        for name in tree.names(folder)
        if name.startswith(("libze_", "libcuda.so"))
    ]


def loader_version(names: list[str]) -> str | None:
    """Return the Level Zero loader's version, "" if only its plain name is there, else None."""
    found = [match for name in names if (match := _LOADER.fullmatch(name))]
    return max((f"1.{match[1]}" if match[1] else "" for match in found), default=None)


def compute_runtime_version(names: list[str], devices: Devices) -> str | None:
    """Return the user-mode driver's version, "" if it shows none, None if it is absent."""
    found = [match for name in names if (match := _DRIVER.fullmatch(name))]
    builds = [int(match[1]) for match in found if match[1]]
    if builds:
        return devices.release_of(max(builds))
    return "" if found else None


def opencl_libraries(tree: Tree) -> tuple[str, ...]:
    """Return the libraries that the system's OpenCL ICD files name."""
    folder = "etc/OpenCL/vendors"
    named = (tree.text(f"{folder}/{name}") for name in tree.names(folder) if name.endswith(".icd"))
    return tuple(name for name in named if name)


def behind_wsl(tree: Tree) -> list[Gpu]:
    """Return the Intel GPUs whose Windows driver is mounted into WSL.

    WSL shows no PCI device but ``/dev/dxg``; the mounted driver store tells which maker's drivers
    there are and their version, not the model.
    """
    found = []
    for name in tree.names(_DRIVER_STORE):
        if name.startswith("iigd"):
            inf = tree.text(f"{_DRIVER_STORE}/{name}/{name.partition('.inf')[0]}.inf")
            version = _INF_VERSION.search(inf.replace("\0", ""))
            driver = Driver("dxg", version[1] if version else None)
            found.append(Gpu("intel", "", "Intel GPU behind WSL", f"wsl:{name}", driver=driver))
    return found
