"""GPUs of a Mac, from the JSON of macOS's system_profiler."""

import json
import re
from collections.abc import Mapping
from typing import Any

from provision.catalog.devices import Devices
from provision.core.errors import ToolError
from provision.core.platforms import MAKERS, this_platform
from provision.core.process import run
from provision.core.variables import fallback_settings
from provision.host.model import Driver, Gpu, Host, System

_METAL = (
    "spdisplays_mtlgpufamilysupport",
    "spdisplays_metalfamily",
    "spdisplays_metal",
)
_TYPES = ["-json", "SPDisplaysDataType", "SPHardwareDataType", "SPSoftwareDataType"]


def probe() -> dict[str, Any]:
    """Return what macOS tells, and ``translated``: whether Rosetta runs this process."""
    try:
        profile = run(["/usr/sbin/system_profiler", *_TYPES], timeout=60)
        document = json.loads(profile.stdout)
        # Macs with a processor of Intel do not know it.
        translated = run(["/usr/sbin/sysctl", "-n", "sysctl.proc_translated"])
    except (ToolError, ValueError):
        return {}
    return {**document, "translated": translated.stdout.strip() == "1"}


def read_macos(
    profile: Mapping[str, Any], devices: Devices, variables: Mapping[str, str]
) -> Host:
    """Return the host of what :func:`probe` tells; an Apple GPU's driver has macOS's version."""
    hardware = _first(profile, "SPHardwareDataType")
    software = _first(profile, "SPSoftwareDataType")
    version = re.search(r"\d+(?:\.\d+)*", software.get("os_version", ""))
    gpus = []
    for number, row in enumerate(profile.get("SPDisplaysDataType", ())):
        gpus.append(_gpu(number, row, version[0] if version else None))
    kind = ""
    if profile.get("translated"):
        kind = "rosetta"
    elif not any(gpu.vendor == "apple" for gpu in gpus):
        kind = this_platform()
    remarks = []
    for name in fallback_settings(variables, "mps"):
        remarks.append(
            f"{name} is set: the CPU computes what torch has not for the GPU, in silence"
        )
    surroundings: tuple[str, ...] = ()
    if "Virtual" in hardware.get("machine_model", ""):
        surroundings = ("vm",)
    return Host(
        this_platform(),
        software.get("kernel_version", "").removeprefix("Darwin "),
        firmware=hardware.get("boot_rom_version", ""),
        surroundings=surroundings,
        gpus=tuple(gpus),
        system=System(refused={"apple": ("no-metal", "")}),  # of one without a driver
        variables=dict(variables),
        remarks=tuple(remarks),
        elsewhere=devices.elsewhere.get(kind, ""),
    )


def _first(profile: Mapping[str, Any], kind: str) -> dict[str, Any]:
    rows = profile.get(kind) or [{}]
    return dict(rows[0])


def _gpu(number: int, row: Mapping[str, str], version: str | None) -> Gpu:
    vendor = "other"
    for name in MAKERS:
        if name in row.get("spdisplays_vendor", "").lower():
            vendor = name
    apple = vendor == "apple"
    bus = row.get("sppci_bus", "").partition("_")[2]
    driver = None
    # The value of one that Metal does not offer is spdisplays_notsupported.
    if apple and any("not" not in row.get(key, "not") for key in _METAL):
        driver = Driver("Metal", version)
    return Gpu(
        vendor,
        row.get("spdisplays_device-id", "").removeprefix("0x"),
        row.get("sppci_model") or row.get("_name") or f"{vendor} GPU",
        f"{bus}:{number}",
        supported=apple,
        integrated=apple,
        driver=driver,
    )
