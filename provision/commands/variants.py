"""The properties of wheel variants (PEP 825) of a target's machines, and of this one."""

import re
import zipfile
import zlib
from pathlib import Path

from packaging.specifiers import SpecifierSet

from provision.catalog.devices import Devices, read_devices
from provision.catalog.variants import (
    BASELINES,
    Properties,
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

Needs = dict[str, dict[str, tuple[str, ...]]]
_FAULTS = (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)
_VARIANT = re.compile(r"[^/]+\.dist-info/variant\.json")
_AT_LEAST = {">=", ">", "==", "~="}


def properties_of_target(target: Target, devices: Devices) -> Properties:
    """Return what the least machine of a target has: oldest driver and lowest capability.

    Of Intel's families, which have no order, all that the spec names.
    """
    hardware, found = target.hardware, Properties()
    vendor = ACCELERATORS[target.accelerator].vendor
    driver = _least(hardware.driver)
    if vendor == "nvidia":
        found |= _of_nvidia(driver, _least(hardware.compute_capability), devices)
    elif vendor == "intel":
        reached = _reached(driver, devices)
        found |= intel_properties(hardware.families, reached)
    return found | BASELINES.get(PLATFORMS[target.platform].machine, {})


def properties_of_host(host: Host, devices: Devices) -> Properties:
    """Return what a machine has, as far as its drivers and its system show it."""
    found = Properties()
    nvidia = [gpu for gpu in host.gpus if gpu.vendor == "nvidia" and gpu.driver]
    if nvidia:
        # As NVIDIA's provider does: one GPU stands for the machine, the newest.
        newest = max(nvidia, key=lambda gpu: _numbers(gpu.compute_capability))
        driver = driver_version(newest, host) or ""
        found |= _of_nvidia(driver, newest.compute_capability, devices)
    intel = [gpu for gpu in host.gpus if gpu.vendor == "intel" and gpu.family]
    if intel:
        intel.sort(key=lambda gpu: bool(gpu.integrated))
        families = [str(gpu.family) for gpu in intel]
        driver = driver_version(intel[0], host) or ""
        found |= intel_properties(families, _reached(driver, devices))
    machine = PLATFORMS[host.platform].machine if host.platform in PLATFORMS else ""
    if machine == "x86_64":
        return found | x86_64_properties(x86_64_level())
    return found | BASELINES.get(machine, {})


def doubts(target: Target, lock: Lock, project: Project) -> list[str]:
    """Return one line for each locked variant that not every machine of a target may be able to use.

    The spec named it, and may know its machines better than the list of what they have at least.
    """
    variants = [artifact for artifact in lock.artifacts if artifact.variant]
    lines = []
    if variants:
        properties = properties_of_target(target, read_devices(project.catalog))
        for artifact in variants:
            is_one = f"{artifact.name} is the variant {artifact.variant}"
            try:
                wheel = project.variants / artifact.filename
                needed = _needs(wheel, artifact.variant)
            except _FAULTS as error:
                lines.append(f"{is_one}, and its variant.json is not valid: {error}")
                continue
            if lacking := unmet(needed, properties):
                machines = f"not every machine of {target.name} needs to have"
                lines.append(f"{is_one}, and {machines} {'; '.join(lacking)}")
    return lines


def _needs(wheel: Path, label: str) -> Needs:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = filter(_VARIANT.fullmatch, archive.namelist())
        with archive.open(member) as stream:
            # What the archive states of its size need not be true.
            parts = bounded(iter(lambda: stream.read(1 << 16), b""), METADATA, member)
            return parse_variants_json(b"".join(parts)).variants[label]


def _of_nvidia(driver: str, capability: str | None, devices: Devices) -> Properties:
    version = parse(driver, "nvidia")
    cuda = devices.cuda_of(int(version.parts[0])) if version else None
    return nvidia_properties(cuda, capability) if cuda else {}


def _reached(driver: str, devices: Devices) -> list[str]:
    """Return the releases of Intel's driver that a version of it is not older than, newest first."""
    reached = []
    for build, release in reversed(devices.releases):
        required = f">={release}.{build}"
        verdict = judge_version(driver, required, "intel", devices).verdict
        if verdict is DriverVerdict.NEW_ENOUGH:
            reached.append(release)
    return reached


def _least(required: object) -> str:
    """Return the lowest version of a specifier, "" where it sets none."""
    for one in SpecifierSet(str(required)) if required else ():
        if one.operator in _AT_LEAST:
            return one.version
    return ""


def _numbers(capability: str | None) -> tuple[int, ...]:
    return tuple(map(int, capability.split("."))) if capability else ()
