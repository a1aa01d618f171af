"""Compare a GPU's driver with the minimum that a target requires."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
    """The version is not visible or not comparable; this is not an error of the driver."""


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
    version = gpu.driver.version if gpu.driver else None
    if gpu.vendor == "nvidia" and gpu.driver:
        return version or host.runtimes.cuda or None
    if gpu.vendor != "intel" or host.platform.startswith("win"):
        return version
    if gpu.driver is None or gpu.driver.name != "dxg":
        version = None
    return host.runtimes.compute_runtime or version


def judge_driver(
    gpu: Gpu, host: Host, required: str, devices: Devices | None = None
) -> DriverJudgement:
    """Compare the driver of one GPU, which the evidence names; see :func:`judge_version`."""
    judged = judge_version(driver_version(gpu, host), required, gpu.vendor, devices)
    first, *more = judged.evidence
    return replace(judged, evidence=(f"{gpu.name} has {first}", *more))


def judge_version(
    version: str | None, required: str, vendor: str, devices: Devices | None = None
) -> DriverJudgement:
    """Compare a driver version as a machine shows it, None or "" where it does not; never raises.

    Without the catalog, Intel's are compared within one numbering, or with a named build.
    """
    driver = NAMES.get(vendor, "driver")
    evidence = [f"{driver} {version or 'of unknown version'}", f"required {required}"]
    if not version:
        return _unknown("the driver's version is not visible", evidence)
    parsed = parse(version.strip(), vendor)
    if parsed is None:
        reason = f"{version} is not a driver version of a known format"
        return _unknown(reason, evidence)
    try:
        specifiers = list(SpecifierSet(required))
    except InvalidSpecifier:
        return _unknown(f"{required!r} is not a version specifier", evidence)
    answers = [meets(parsed, one, vendor, devices) for one in specifiers]
    for one in specifiers:
        evidence += explain(parsed, one, vendor, devices)
    # One specifier that is not met decides, even if others cannot be compared.
    if False in answers:
        reason = f"{driver} {version} is not {required}"
        return DriverJudgement(DriverVerdict.TOO_OLD, reason, tuple(evidence))
    if None in answers:
        reason = f"it cannot be decided whether driver {version} is {required}"
        return _unknown(reason, evidence)
    reason = f"{driver} {version} is {required}"
    return DriverJudgement(DriverVerdict.NEW_ENOUGH, reason, tuple(evidence))


def _unknown(reason: str, evidence: Sequence[str]) -> DriverJudgement:
    return DriverJudgement(DriverVerdict.UNKNOWN, reason, tuple(evidence))


def smoke_expectation(
    target: TargetHardware, host: Host, devices: Devices
) -> dict[str, Any] | None:
    """Return the verdict that the check ``device.driver`` reports; None without a requirement."""
    vendor = ACCELERATORS[target.accelerator].vendor
    required = target.driver
    if not vendor or required is None:
        return None
    judged = []
    for gpu in host.gpus:
        # A device of unknown family, such as every Intel GPU in WSL, may be the one.
        foreign = gpu.family and target.families and gpu.family not in target.families
        if gpu.vendor == vendor and not foreign:
            judged.append(judge_driver(gpu, host, required, devices))
    if not judged:
        judged = [judge_version(None, required, vendor, devices)]
    chosen = judged[0]
    if len({judgement.verdict for judgement in judged}) > 1:
        evidence: list[str] = []
        for judgement in judged:
            evidence += judgement.evidence
        reason = "the devices of this machine have different drivers"
        chosen = _unknown(reason, list(dict.fromkeys(evidence)))
    return asdict(chosen) | {"evidence": list(chosen.evidence)}


def driver_remedy(gpu: Gpu, host: Host, required: str) -> str:
    """Return how to update a driver to the required version."""
    if gpu.vendor == "apple":
        return f"Update macOS to a version {required}"
    maker = MAKERS.get(gpu.vendor, "the maker")
    in_linux = gpu.vendor == "intel" and host.runtimes.compute_runtime
    if "wsl" in host.surroundings and not in_linux:
        # WSL has /dev/dxg instead of a kernel driver; the one in Windows is used by both sides.
        return f"Update {maker}'s driver in Windows, then `wsl --update` and `wsl --shutdown`"
    return f"Install a driver {required}"


def satisfies(capability: str, required: str) -> bool:
    """Whether a compute capability is in a range; an invalid one is not."""
    try:
        return SpecifierSet(required).contains(Version(capability), prereleases=True)
    except InvalidVersion:
        return False
