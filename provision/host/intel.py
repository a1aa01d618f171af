"""Intel's libraries outside any environment: Level Zero loader, compute-runtime, OpenCL."""

import dataclasses
import re

from provision.catalog.devices import Devices
from provision.host.driver_versions import numbers_of
from provision.host.model import Driver, Gpu, Host
from provision.host.root import Machine, Root
from provision.host.sysfs import catalogued

_LOADER = re.compile(r"libze_loader\.so\.1(?:\.(\d+(?:\.\d+)*))?")
# libze_intel_gpu.so.1.<minor>.<build>, after NEO_VERSION_BUILD in level_zero/CMakeLists.txt.
_DRIVER = re.compile(r"libze_intel_gpu\.so\.1(?:\.\d+\.(\d{5,}).*)?")
# Where WSL mounts the driver store of Windows: iigd_dch.inf_amd64_…, u0410172.inf_amd64_….
_DRIVER_STORE = "usr/lib/wsl/drivers"
_AMD = re.compile(r"u0\d+\.inf")
_INF_VERSION = re.compile(r"DriverVer\s*=\s*[\d/]+\s*,\s*([\d.]+)", re.IGNORECASE)


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with Intel's runtimes, and the GPUs that WSL hides from the PCI bus."""
    # Where no folder of libraries can be read, they may be there, of a version that is not known.
    names = machine.libraries or ["libze_loader.so.1", "libze_intel_gpu.so.1"]
    runtimes = dataclasses.replace(
        host.runtimes,
        level_zero=loader_version(names),
        compute_runtime=compute_runtime_version(names, machine.devices),
        opencl=opencl_libraries(machine.root),
    )
    behind = behind_wsl(machine) if "wsl" in host.surroundings else []
    return dataclasses.replace(host, runtimes=runtimes, gpus=(*host.gpus, *behind))


def loader_version(names: list[str]) -> str | None:
    """Return the Level Zero loader's version, "" if no file name shows it, None if it is absent."""
    found = [match for name in names if (match := _LOADER.fullmatch(name))]
    versions = [f"1.{match[1]}" if match[1] else "" for match in found]
    return max(versions, key=numbers_of, default=None)


def compute_runtime_version(names: list[str], devices: Devices) -> str | None:
    """Return the user-mode driver's version, "" if no file name shows it, None if it is absent."""
    found = [match for name in names if (match := _DRIVER.fullmatch(name))]
    builds = [int(match[1]) for match in found if match[1]]
    if builds:
        return devices.release_of(max(builds))
    return "" if found else None


def opencl_libraries(root: Root) -> tuple[str, ...]:
    """Return the libraries that the system's OpenCL ICD files name."""
    folder = "etc/OpenCL/vendors"
    named = (
        root.text(f"{folder}/{name}")
        for name in root.names(folder)
        if name.endswith(".icd")
    )
    return tuple(name for name in named if name)


def behind_wsl(machine: Machine) -> list[Gpu]:
    """Return the GPUs of Intel and AMD whose Windows driver is mounted into WSL."""
    # WSL has no PCI device of a GPU, only ``/dev/dxg``. The mounted driver store shows the vendor
    # of each driver and its version, not the model of the GPU.
    root, found = machine.root, []
    for name in root.names(_DRIVER_STORE):
        if _AMD.match(name):
            gpu = catalogued(machine.devices, "1002", "", f"wsl:{name}")
            found.append(
                dataclasses.replace(
                    gpu, name="AMD GPU behind WSL", driver=Driver("dxg")
                )
            )
        if name.startswith("iigd"):
            inf = root.text(f"{_DRIVER_STORE}/{name}/{name.partition('.inf')[0]}.inf")
            # The file is UTF-16; read as UTF-8, it has a NUL beside each ASCII character.
            version = _INF_VERSION.search(inf.replace("\0", ""))
            driver = Driver("dxg", version[1] if version else None)
            found.append(
                Gpu("intel", "", "Intel GPU behind WSL", f"wsl:{name}", driver=driver)
            )
    return found
