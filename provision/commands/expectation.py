"""What the suite has to find: the content of ``expect.json``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.catalog.devices import read_devices
from provision.core.variables import fallback_settings
from provision.host.drivers import smoke_expectation
from provision.host.model import Host
from provision.spec.model import Target
from provision.spec.parts import hardware_of


def expectation(
    target: Target, versions: dict[str, str], catalog: Path, host: Host | None = None
) -> dict[str, Any]:
    """Return what a target promises, with the verdict on a host's driver where one is given."""
    devices = read_devices(catalog)
    verdict = None
    if host:
        verdict = smoke_expectation(hardware_of(target), host, devices)
    families = devices.intel_families() if target.accelerator == "xpu" else {}
    return {
        "schema": 4,
        "target": target.name,
        "accelerator": target.accelerator,
        "python": target.python,
        "packages": versions,
        "requirements": _requirements(target, versions),
        "forbid": [entry.model_dump() for entry in target.pip.forbid],
        "driver": target.hardware.driver,
        "families": list(target.hardware.families),
        "intel_devices": families,
        "fused_ops": list(target.smoke.fused_ops),
        "rotary": list(target.smoke.rotary),
        "speedup_over_cpu": target.smoke.speedup_over_cpu,
        "environment": target.environment,
        "driver_verdict": verdict,
    }


def fallback_of_caller(target: Target, caller: Mapping[str, str]) -> list[str]:
    """Return the caller's settings that leave work of the device to the CPU, and who gets them.

    The checks run without them; what the spec sets, the checks get as well.
    """
    settings: list[str] = []
    for name, value in fallback_settings(caller, target.accelerator).items():
        who = "`run` drops it, but other programs get it"
        if name in target.run.keep:
            who = "`run` passes it on, as the spec says"
        settings.append(f"{name}={value} is set where the checks were started; {who}")
    return settings


def _requirements(target: Target, versions: dict[str, str]) -> list[str]:
    """Return the normalised names of what a spec requires on its platform."""
    names: set[str] = set()
    for requirement in map(Requirement, target.pip.requirements):
        name = canonicalize_name(requirement.name)
        # A marker can exclude the platform of the target: what the lock holds decides then.
        if requirement.marker is None or name in versions:
            names.add(name)
    return sorted(names)
