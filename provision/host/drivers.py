"""Judge a GPU's driver against the minimum that a target requires."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from provision.catalog.devices import Devices
from provision.core.platforms import ACCELERATORS, MAKERS
from provision.host.driver_versions import explain, meets, parse
from provision.host.model import Gpu, Host
from provision.spec.parts import TargetHardware

NAMES = {"apple": "macOS"}  # of what a GPU's driver is a part of


class DriverVerdict(StrEnum):
    """Whether a driver meets a requirement."""

    NEW_ENOUGH = "new-enough"
    TOO_OLD = "too-old"
    UNKNOWN = "unknown"
    """The version is not visible or not comparable; this is not a fault of the driver."""


@dataclass(frozen=True, slots=True)
class DriverJudgement:
    """The verdict, why, in one clause, and the versions and builds that were compared."""

    verdict: DriverVerdict
    reason: str
    evidence: tuple[str, ...]


def driver_version(gpu: Gpu, host: Host) -> str | None:
    """Return the version that a spec's ``hardware.driver`` is compared with, or None."""
    # For Intel on Linux it is compute-runtime's, as i915 and xe carry the kernel's version only; in
    # WSL without a compute-runtime the Windows driver's. A container can hide NVIDIA's driver, but
    # not its libcuda.
    own = gpu.driver.version if gpu.driver else None
    if gpu.vendor == "intel" and not host.platform.startswith("win"):
        behind_wsl = gpu.driver is not None and gpu.driver.name == "dxg"
        return host.runtimes.compute_runtime or (own if behind_wsl else None)
    if gpu.vendor == "nvidia" and gpu.driver:
        return own or host.runtimes.cuda or None
    return own


def judge_driver(
    gpu: Gpu, host: Host, required: str, devices: Devices | None = None
) -> DriverJudgement:
    """Judge the driver of one GPU, which the evidence names; see :func:`judge_version`."""
    judged = judge_version(driver_version(gpu, host), required, gpu.vendor, devices)
    first, *more = judged.evidence
    return dataclasses.replace(judged, evidence=(f"{gpu.name} has {first}", *more))


def judge_version(
    version: str | None, required: str, vendor: str, devices: Devices | None = None
) -> DriverJudgement:
    """Judge a driver version as a machine shows it, None or "" where it does not; never raises.

    Without the catalog, Intel's are compared within one numbering, or with a named build.
    """
    driver = NAMES.get(vendor, "driver")
    evidence = [f"{driver} {version or 'of unknown version'}", f"required {required}"]
    found = parse(version.strip(), vendor) if version else None
    if found is None:
        reason = f"{version} is not a driver version of a known format"
        return _unknown(
            reason if version else "the driver's version is not visible", evidence
        )
    try:
        specifiers = list(SpecifierSet(required))
    except InvalidSpecifier:
        return _unknown(f"{required!r} is not a version specifier", evidence)
    met = [meets(found, each, vendor, devices) for each in specifiers]
    evidence += [
        line for each in specifiers for line in explain(found, each, vendor, devices)
    ]
    # One specifier that is not met decides, even if others cannot be judged.
    if False in met:
        reason = f"{driver} {version} is not {required}"
        return DriverJudgement(DriverVerdict.TOO_OLD, reason, tuple(evidence))
    if None in met:
        return _unknown(
            f"it cannot be decided whether driver {version} is {required}", evidence
        )
    reason = f"{driver} {version} is {required}"
    return DriverJudgement(DriverVerdict.NEW_ENOUGH, reason, tuple(evidence))


def _unknown(reason: str, evidence: Sequence[str]) -> DriverJudgement:
    return DriverJudgement(DriverVerdict.UNKNOWN, reason, tuple(evidence))


def smoke_expectation(
    target: TargetHardware, host: Host, devices: Devices
) -> dict[str, Any] | None:
    """Return the judgement that the check ``device.driver`` reports; None without a requirement."""
    required, families = target.driver, target.families
    if target.accelerator == "cpu" or required is None:
        return None
    vendor = ACCELERATORS[target.accelerator].vendor
    gpus = [gpu for gpu in host.gpus if gpu.vendor == vendor]
    # A device of unknown family, such as every Intel GPU in WSL, may be the one.
    own = [
        gpu for gpu in gpus if not families or not gpu.family or gpu.family in families
    ]
    judged = [judge_driver(gpu, host, required, devices) for gpu in own]
    chosen = next(iter(judged), None) or judge_version(None, required, vendor, devices)
    if len({each.verdict for each in judged}) > 1:
        lines = dict.fromkeys(line for each in judged for line in each.evidence)
        chosen = _unknown(
            "the devices of this machine have different drivers", list(lines)
        )
    return dataclasses.asdict(chosen) | {"evidence": list(chosen.evidence)}


def driver_remedy(gpu: Gpu, host: Host, required: str) -> str:
    """Return how to bring a driver that is too old to the required version."""
    if gpu.vendor == "apple":
        return f"Update macOS to a version {required}"
    maker = MAKERS.get(gpu.vendor, "the maker")
    in_linux = gpu.vendor == "intel" and host.runtimes.compute_runtime
    if "wsl" in host.surroundings and not in_linux:
        # WSL has /dev/dxg instead of a kernel driver; the one in Windows serves both sides.
        return f"Update {maker}'s driver in Windows, then `wsl --update` and `wsl --shutdown`"
    return f"Install a driver {required}"


def satisfies(capability: str, required: str) -> bool:
    """Whether a compute capability lies in a range; an invalid one does not."""
    try:
        return SpecifierSet(required).contains(Version(capability), prereleases=True)
    except InvalidVersion:
        return False
