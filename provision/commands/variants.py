"""The properties of wheel variants (PEP 825) of a target's machines, and of this one."""

import re
import zipfile
import zlib
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog.devices import Devices, read_devices
from provision.catalog.variants import (
    BASELINES,
    Properties,
    VariantsJson,
    intel_properties,
    nvidia_properties,
    parse_variants_json,
    unmet,
    x86_64_properties,
)
from provision.core.limits import METADATA, bounded
from provision.core.platforms import ACCELERATORS, PLATFORMS
from provision.core.project import Project
from provision.host.driver_versions import parse
from provision.host.drivers import DriverVerdict, driver_version, judge_version
from provision.host.model import Host
from provision.host.processor import x86_64_level
from provision.lockfile.pip import Lock
from provision.spec.model import Target
from provision.spec.tables import faults_of

Needs = dict[str, dict[str, tuple[str, ...]]]
# RuntimeError: encrypted, or of a later version of zip than Python's.
_FAULTS = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
_COMPRESSIONS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # that installers read
_VARIANT = re.compile(r"[^/]+\.dist-info/variant\.json")
_AT_LEAST = {">=", ">", "==", "===", "~="}


def properties_of_target(target: Target, devices: Devices) -> Properties:
    """Return what the least machine of a target has: oldest driver and lowest capability.

    Of Intel's families, which have no order, all that the spec names.
    """
    hardware = target.hardware
    properties = Properties()
    vendor = ACCELERATORS[target.accelerator].vendor
    driver = _least(hardware.driver)
    if vendor == "nvidia":
        capability = _least(hardware.compute_capability)
        properties = _of_nvidia(driver, capability, devices)
    elif vendor == "intel":
        reached = _reached(driver, target.platform, devices)
        properties = intel_properties(hardware.families, reached)
    return properties | BASELINES.get(PLATFORMS[target.platform].machine, {})


def properties_of_host(host: Host, devices: Devices) -> Properties:
    """Return what a machine has, as far as its drivers and its system show it."""
    properties = Properties()
    nvidia = [gpu for gpu in host.gpus if gpu.vendor == "nvidia" and gpu.driver]
    if nvidia:
        # As NVIDIA's provider does: one GPU stands for the machine, the newest.
        newest = max(nvidia, key=lambda gpu: _numbers(gpu.compute_capability))
        driver = driver_version(newest, host) or ""
        properties |= _of_nvidia(driver, newest.compute_capability, devices)
    intel = [gpu for gpu in host.gpus if gpu.vendor == "intel" and gpu.family]
    if intel:
        intel.sort(key=lambda gpu: bool(gpu.integrated))
        families = [str(gpu.family) for gpu in intel]
        driver = driver_version(intel[0], host) or ""
        reached = _reached(driver, host.platform, devices)
        properties |= intel_properties(families, reached)
    machine = PLATFORMS[host.platform].machine if host.platform in PLATFORMS else ""
    if machine == "x86_64":
        return properties | x86_64_properties(x86_64_level())
    return properties | BASELINES.get(machine, {})


def doubts(target: Target, lock: Lock, project: Project) -> list[str]:
    """Return one line for each locked variant that not every machine of a target may be able to use.

    The spec named it, and may know its machines better than the list of what they have at least.
    """
    variants = [artifact for artifact in lock.artifacts if artifact.variant]
    lines: list[str] = []
    if not variants:
        return lines
    properties = properties_of_target(target, read_devices(project.catalog))
    machines = _by_family(properties)
    for artifact in variants:
        is_one = f"{artifact.name} is the variant {artifact.variant}"
        try:
            needed = _needs(project.variants / artifact.filename, artifact.variant)
        except _FAULTS as error:
            faults = "; ".join(faults_of(error, VariantsJson))
            lines.append(f"{is_one}, and its variant.json is not valid: {faults}")
            continue
        lacking = dict[str, None]()
        for machine in machines:
            lacking |= dict.fromkeys(unmet(needed, machine))
        if lacking:
            some = f"not every machine of {target.name} needs to have"
            lines.append(f"{is_one}, and {some} {'; '.join(lacking)}")
    return lines


def _by_family(properties: Properties) -> list[Properties]:
    """Return what a target's machines have at least, by Intel's families: each has one of them."""
    intel = properties.get("intel", {})
    machines = []
    for family in intel.get("family", ()):
        machines.append(properties | {"intel": intel | {"family": (family,)}})
    return machines or [properties]


def _needs(wheel: Path, label: str) -> Needs:
    with zipfile.ZipFile(wheel) as archive:
        members = [m for m in archive.infolist() if _VARIANT.fullmatch(m.filename)]
        if len(members) != 1:
            raise ValueError(f"the wheel has {len(members)} such files")
        if members[0].compress_type not in _COMPRESSIONS:
            raise ValueError("its compression is not one of wheels")
        with archive.open(members[0]) as stream:
            # What the archive states of its size need not be true.
            chunks = iter(lambda: stream.read(1 << 16), b"")
            text = b"".join(bounded(chunks, METADATA, members[0].filename))
    stated = parse_variants_json(text).variants
    if label not in stated:
        raise ValueError(f"it has no variant {label}")
    return stated[label]


def _of_nvidia(driver: str, capability: str | None, devices: Devices) -> Properties:
    version = parse(driver, "nvidia")
    if not version:
        return {}
    cuda = devices.cuda_of(int(version.parts[0]))
    return nvidia_properties(cuda, capability) if cuda else {}


def _reached(driver: str, platform: str, devices: Devices) -> list[str]:
    """Return the releases of Intel's driver that a version of it is not older than, newest first.

    None on Windows, whose driver names no release: the provider reports none there either.
    """
    reached = list[str]()
    if platform.startswith("win"):
        return reached
    for build, release in reversed(devices.releases):
        required = f">={release}.{build}"
        verdict = judge_version(driver, required, "intel", devices).verdict
        if verdict is DriverVerdict.NEW_ENOUGH:
            reached.append(release)
    return reached


def _least(required: str | None) -> str:
    """Return the highest of a specifier's lower bounds, "" where it sets none."""
    bounds = []
    for part in SpecifierSet(required or ""):
        if part.operator in _AT_LEAST:
            bounds.append(part.version.removesuffix(".*"))
    return max(bounds, key=Version, default="")


def _numbers(capability: str | None) -> tuple[int, ...]:
    if not capability:
        return ()
    return tuple(map(int, capability.split(".")))
