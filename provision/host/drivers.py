"""Versions of GPU drivers: which one counts on a host, and whether a range contains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from provision.host.model import Gpu, Host


def driver_version(gpu: Gpu, host: Host) -> str | None:
    """Return the version that a spec's ``hardware.driver`` is compared with, or None.

    For Intel on Linux it is that of compute-runtime: i915 and xe have the kernel's version only.
    """
    if gpu.vendor == "intel" and host.platform != "win-64" and gpu.device_id:
        return host.runtimes.compute_runtime or None
    return gpu.driver.version if gpu.driver else None


def satisfies(version: str, wanted: str) -> bool:
    """Whether a range contains a driver's version; False where it is not a PEP 440 version."""
    try:
        return SpecifierSet(wanted).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
