"""Intel's GPUs: libraries outside any environment, what selector variables hide, who computes.

Level Zero numbers its devices discrete before integrated, then by PCI address, unless
``ZE_ENABLE_PCI_ID_DEVICE_ORDER`` is 1 (``comparePciIdBusNumber`` in compute-runtime's
execution_environment.cpp). ``ZE_AFFINITY_MASK`` is applied first; ``ONEAPI_DEVICE_SELECTOR``
numbers the devices that remain (https://github.com/intel/llvm/blob/sycl/sycl/doc/EnvironmentVariables.md).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from provision.catalog.devices import Devices
from provision.environment.reading import read_text
from provision.host.driver_versions import numbers_of
from provision.host.model import Driver, Gpu, Host
from provision.host.root import Machine
from provision.host.sysfs import catalogued

_LEVEL_ZERO, _COMPUTE_RUNTIME = "libze_loader.so.1", "libze_intel_gpu.so.1"
_LOADER = re.compile(r"libze_loader\.so\.1(?:\.(\d+(?:\.\d+)*))?")
# libze_intel_gpu.so.1.<minor>.<build>, after NEO_VERSION_BUILD in level_zero/CMakeLists.txt.
_DRIVER = re.compile(r"libze_intel_gpu\.so\.1(?:\.\d+\.(\d{5,}).*)?")
# Time or cycles on the compute engines: https://docs.kernel.org/gpu/drm-usage-stats.html
_COMPUTE = re.compile(r"^drm-(?:engine-compute|cycles-ccs):\s*(\d+)", re.MULTILINE)
_INTEL = re.compile(r"^drm-driver:\s*(?:i915|xe)$", re.MULTILINE)
_BACKENDS = {"*", "level_zero", "level_zero_v2"}
# Where WSL mounts the driver store of Windows: iigd_dch.inf_amd64_…, u0410172.inf_amd64_….
_AMD = re.compile(r"u0\d+\.inf")
_DRIVER_STORE = "usr/lib/wsl/drivers"
_TERM = re.compile(r"!?[\w*]+:[\w*.,]+")  # of an ONEAPI_DEVICE_SELECTOR
_INF_VERSION = re.compile(r"DriverVer\s*=\s*[\d/]+\s*,\s*([\d.]+)", re.IGNORECASE)


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with Intel's runtimes, and the GPUs that WSL hides from the PCI bus."""
    # Where no folder of libraries can be read, they may be there, of a version that is not known.
    loaders = machine.loaded(_LEVEL_ZERO) or [_LEVEL_ZERO]
    drivers = machine.loaded(_COMPUTE_RUNTIME) or [_COMPUTE_RUNTIME]
    runtimes = replace(
        host.runtimes,
        level_zero=loader_version(loaders),
        compute_runtime=compute_runtime_version(drivers, machine.devices),
    )
    gpus = list(host.gpus)
    if "wsl" in host.surroundings:
        gpus += behind_wsl(machine)
    return replace(host, runtimes=runtimes, gpus=tuple(gpus))


def loader_version(names: list[str]) -> str | None:
    """Return the Level Zero loader's version, "" if no file name shows it, None if it is absent."""
    version = None
    for match in filter(None, map(_LOADER.fullmatch, names)):
        candidate = f"1.{match[1]}" if match[1] else ""
        version = max(version or "", candidate, key=numbers_of)
    return version


def compute_runtime_version(names: list[str], devices: Devices) -> str | None:
    """Return the user-mode driver's version, "" if no file name shows it, None if it is absent."""
    matches = list(filter(None, map(_DRIVER.fullmatch, names)))
    builds = [int(match[1]) for match in matches if match[1]]
    if builds:
        return devices.release_of(max(builds))
    return "" if matches else None


def behind_wsl(machine: Machine) -> Iterator[Gpu]:
    """Yield the GPUs of Intel and AMD whose Windows driver is mounted into WSL."""
    # WSL has no PCI device of a GPU, only ``/dev/dxg``. The mounted driver store shows the version
    # of each driver, not the model of the GPU.
    root = machine.root
    for name in root.names(_DRIVER_STORE):
        if _AMD.match(name):
            gpu = catalogued(machine.devices, "1002", "", f"wsl:{name}")
            yield replace(gpu, name="AMD GPU behind WSL")
        if name.startswith("iigd"):
            inf = root.text(f"{_DRIVER_STORE}/{name}/{name.partition('.inf')[0]}.inf")
            # The file is UTF-16; read as UTF-8, it has a NUL beside each ASCII character.
            match = _INF_VERSION.search(inf.replace("\0", ""))
            driver = Driver("dxg", match[1] if match else None)
            yield Gpu("intel", "", "Intel GPU behind WSL", f"wsl:{name}", driver=driver)


def occupants(notes: set[str], proc: Path) -> list[str]:
    """Return the processes that compute; adds to the notes what cannot be read."""
    if not proc.is_dir():
        notes.add(
            "whether the device is idle is not measured: this system does not tell"
        )
    busy = []
    for process in proc.glob("[0-9]*"):
        try:
            texts = [read_text(file) for file in (process / "fdinfo").iterdir()]
        except PermissionError:
            notes.add(
                "processes of other users are not seen: only root may read their fdinfo"
            )
            continue
        except OSError:  # it ended
            continue
        clients = list(filter(_INTEL.search, texts))
        used = _COMPUTE.findall("\n".join(clients))
        if any(map(int, used)):
            busy.append(process.name)
        elif clients and not used:
            notes.add(
                f"this kernel does not tell whether process {process.name} computes"
            )
    return sorted(busy)


def in_level_zero_order(host: Host) -> list[Gpu]:
    """Return Intel's GPUs in Level Zero's order; one with two tiles counts twice."""
    # Level Zero does not see, and so does not number, a GPU without a driver.
    gpus = [gpu for gpu in host.gpus if gpu.vendor == "intel" and gpu.driver]
    gpus.sort(key=lambda gpu: gpu.address)
    if host.variables.get("ZE_ENABLE_PCI_ID_DEVICE_ORDER") != "1":
        gpus.sort(key=lambda gpu: gpu.integrated is True)
    if host.variables.get("ZE_FLAT_DEVICE_HIERARCHY", "").upper() == "COMPOSITE":
        return gpus
    tiles = []
    for gpu in gpus:
        tiles += [gpu] * gpu.tiles
    return tiles


def malformed(selector: str) -> str | None:
    """Return the first term of an ``ONEAPI_DEVICE_SELECTOR`` that its parser rejects, or None."""
    for term in selector.split(";"):
        if term and not _TERM.fullmatch(term.strip()):
            return term
    return None


def hidden(host: Host) -> dict[str, str]:
    """Return the GPUs that a variable hides: address to ``NAME=value``."""
    visible = in_level_zero_order(host)
    covered = {}
    if mask := host.variables.get("ZE_AFFINITY_MASK"):
        # 0.1 is the second tile of device 0, which is then not hidden as a whole.
        numbers = {word.split(".")[0].strip() for word in mask.split(",")}
        chosen = [gpu for i, gpu in enumerate(visible) if str(i) in numbers]
        covered = _missing(visible, chosen, f"ZE_AFFINITY_MASK={mask}")
        visible = chosen
    if selector := host.variables.get("ONEAPI_DEVICE_SELECTOR"):
        chosen = [gpu for i, gpu in enumerate(visible) if selects(selector, i)]
        covered |= _missing(visible, chosen, f"ONEAPI_DEVICE_SELECTOR={selector}")
    return covered


def _missing(before: Sequence[Gpu], after: Sequence[Gpu], why: str) -> dict[str, str]:
    missing = {gpu.address: why for gpu in before}
    for gpu in after:
        missing.pop(gpu.address, None)
    return missing


def selects(selector: str, index: int) -> bool:
    """Whether an ``ONEAPI_DEVICE_SELECTOR`` selects the Level Zero GPU of this number."""
    if malformed(selector):
        return False  # the runtime aborts the program, so it uses no GPU
    words = selector.lower().split(";")
    terms = [word.strip() for word in words if word.strip()]
    # Without a term that selects, all are selected that no term excludes.
    selected = all(term.startswith("!") for term in terms)
    for term in terms:
        if _matches(term.removeprefix("!"), index):
            if term.startswith("!"):
                return False
            selected = True
    return selected


def _matches(term: str, index: int) -> bool:
    backend, _, devices = term.partition(":")
    names = {word.split(".")[0] for word in devices.split(",")}
    return backend in _BACKENDS and not names.isdisjoint({"*", "gpu", str(index)})
