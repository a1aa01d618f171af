"""The device catalog: device ids to families, builds to releases, minimum drivers, peaks."""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from provision.catalog.known_wrong import KnownWrong, read_known_wrong
from provision.core.errors import damage_in
from provision.core.limits import read_parsed
from provision.core.project import fact
from provision.core.toml import parse_toml


@dataclass(frozen=True, slots=True)
class Device:
    """The catalog's entry of one device id."""

    name: str  # marketing name, or the chip's name
    # Generation, as specs name it; None for a chip newer than the catalog.
    family: str | None
    supported: bool  # whether PyTorch's wheels are built for the family
    integrated: bool  # whether it is part of the processor
    tiles: int = 1  # how many devices the runtime makes of it
    # None for Intel, and where it is not known yet.
    compute_capability: str | None = None
    # The drivers that know the model, as a specifier; "" for any.
    least_driver: str = ""


Chip = tuple[int, int, Device]  # its first device id, the last one, and what they are
# What a row of ``peaks.toml`` may say: GB/s of memory, and TFLOP/s of products by type.
PEAKS = {"memory", "float64", "float32", "float16", "bfloat16"}
# The catalog lists every NVIDIA chip from Maxwell on, so an unlisted id above its first is newer
# than the catalog. Such a chip may run: wheels with PTX serve each later generation, and wheels
# without it the later chips of the same one. Only a driver can tell, so it counts as supported.
_NEWER = Device(
    "NVIDIA GPU newer than the catalog", None, supported=True, integrated=False
)


@dataclass(frozen=True, slots=True)
class Devices:
    """The contents of ``devices.toml``, ``drivers.toml`` and ``known-wrong.toml``."""

    intel: dict[str, Device]  # by device id
    # NVIDIA's.
    chips: tuple[Chip, ...]
    # Builds of compute-runtime, ascending, and releases.
    releases: tuple[tuple[int, str], ...]
    # Driver number on Windows to the version that Level Zero shows.
    intel_windows: dict[str, str]
    # Major version of CUDA to minimum driver, by platform.
    cuda: dict[str, dict[str, str]]
    # Family to its marketing names, without "Intel".
    intel_names: dict[str, tuple[str, ...]]
    # Of NVIDIA's driver, ascending, and the CUDA that each reports at least.
    branches: tuple[tuple[int, str], ...] = ()
    # Vendor, NVIDIA family or platform that no target is for, to where to go with it.
    elsewhere: dict[str, str] = field(default_factory=dict)
    known_wrong: dict[str, KnownWrong] = field(default_factory=dict)  # by name of row

    def find(self, vendor: str, device_id: str) -> Device | None:
        """Return the entry of a PCI device id, or None."""
        if vendor == "intel":
            return self.intel.get(device_id)
        if vendor != "nvidia" or not device_id:
            return None
        number = int(device_id, 16)
        # NVIDIA reserves ranges of ids for a chip, and new models appear within them.
        for first, last, chip in self.chips:
            if first <= number <= last:
                return chip
        return _NEWER if number > self.chips[0][0] else None

    def families(self) -> dict[str, list[str]]:
        """Return the families of each vendor."""
        of_nvidia = dict.fromkeys(
            chip.family for _, _, chip in self.chips if chip.family
        )
        return {"intel": list(self.intel_names), "nvidia": list(of_nvidia)}

    def intel_families(self) -> dict[str, dict[str, list[str]]]:
        """Return the device ids and marketing names of each Intel family, as plain JSON."""
        families = {}
        for family, names in self.intel_names.items():
            families[family] = {"ids": [], "names": list(names)}
        for device_id, device in self.intel.items():
            if device.family:
                families[device.family]["ids"].append(device_id)
        return families

    def release_of(self, build: int) -> str:
        """Return ``<release>.<build>`` of compute-runtime for a build number, such as 24.52.32224.

        The file name of Intel's library has the build only. Builds rise with releases, so the
        release is the last one whose first build is not above it.
        """
        release = "0"
        for first, name in self.releases:
            if first <= build:
                release = name
        return f"{release}.{build}"

    def cuda_of(self, branch: int) -> str | None:
        """Return the CUDA that a branch of NVIDIA's driver reports at least; None before 450."""
        reported = None
        for first, cuda in self.branches:
            if first <= branch:
                reported = cuda
        return reported

    def least_driver(self, cuda: str, platform: str) -> str | None:
        """Return the minimum NVIDIA driver for a CUDA version such as ``12.8``, or None."""
        major, _, _ = cuda.partition(".")
        drivers = self.cuda.get(major, {})
        return drivers.get(platform)


_parse = lru_cache(maxsize=2)(parse_toml)  # several steps of a command read them


def read_devices(catalog: Path) -> Devices:
    """Read the device catalog from its folder; SpecError if a file is missing or not valid."""
    with damage_in(
        f"the device catalog in {catalog}", "restore it from version control"
    ):
        devices = read_parsed(fact(catalog, "devices.toml"), _parse)
        drivers = read_parsed(fact(catalog, "drivers.toml"), _parse)
        names = {}
        windows = {}
        for family, row in devices["intel"]["family"].items():
            marketed = [name for name in row["devices"] if name != "unnamed"]
            names[family] = (*marketed, *row.get("other_names", ()))
        for number, pair in drivers["intel_windows"].items():
            windows[number] = pair["level_zero"]
        releases = []
        for release, build in drivers["compute_runtime"].items():
            releases.append((build, release))
        branches = []
        for branch, cuda in drivers["cuda_of_branch"].items():
            branches.append((int(branch), cuda))
        nvidia = devices["nvidia"]
        return Devices(
            intel=_intel(devices["intel"]),
            chips=tuple(_chip(nvidia, row) for row in nvidia["chips"]),
            releases=tuple(sorted(releases)),
            intel_windows=windows,
            cuda=drivers["cuda"],
            intel_names=names,
            branches=tuple(sorted(branches)),
            elsewhere=devices.get("elsewhere", {}),
            known_wrong=read_known_wrong(catalog),
        )


def read_peaks(catalog: Path) -> dict[str, dict[str, float]]:
    """Return what data sheets promise, by device: GB/s of ``memory``, TFLOP/s of each type."""
    with damage_in(f"peaks.toml in {catalog}", "restore it from version control"):
        rows = read_parsed(fact(catalog, "peaks.toml"), parse_toml)["peak"]
        peaks: dict[str, dict[str, float]] = {}
        for row in rows:
            peak = {kind: float(row[kind]) for kind in PEAKS & row.keys()}
            peaks |= dict.fromkeys(row["names"], peak)
        return peaks


def _intel(table: dict[str, Any]) -> dict[str, Device]:
    least_driver: dict[str, str] = {}
    for driver, ids in table.get("least_driver", {}).items():
        least_driver |= dict.fromkeys(ids, driver)
    devices = {}
    for key, family in table["family"].items():
        for name, ids in family["devices"].items():
            # Devices without a marketing name get that of their family.
            shown = family["name"] if name == "unnamed" else name
            for device_id in ids:
                devices[device_id] = Device(
                    name=f"Intel {shown}",
                    family=key,
                    supported=family["supported"],
                    integrated=family["integrated"],
                    tiles=2 if device_id in table["two_tiles"] else 1,
                    least_driver=least_driver.get(device_id, ""),
                )
    return devices


def _chip(table: dict[str, Any], row: list[str]) -> Chip:
    first, last, chip, family, capability = row
    device = Device(
        name=f"NVIDIA {chip.upper()} ({family.capitalize()})",
        family=family,
        supported=True,
        integrated=False,
        compute_capability=capability or None,
        least_driver=table.get("least_driver", {}).get(family, ""),
    )
    return int(first, 16), int(last, 16), device
