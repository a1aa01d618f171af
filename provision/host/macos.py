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
_ASKED = ["-json", "SPDisplaysDataType", "SPHardwareDataType", "SPSoftwareDataType"]


def probe() -> dict[str, Any]:
    """Return what macOS tells, and ``translated``: whether Rosetta runs this process."""
    try:
        told = json.loads(
            run(["/usr/sbin/system_profiler", *_ASKED], timeout=60).stdout
        )
        asked = run(
            ["/usr/sbin/sysctl", "-n", "sysctl.proc_translated"]
        )  # unknown to Intel Macs
    except (ToolError, ValueError):
        return {}
    return {**told, "translated": asked.stdout.strip() == "1"}


def read_macos(
    told: Mapping[str, Any], devices: Devices, variables: Mapping[str, str]
) -> Host:
    """Return the host of what :func:`probe` tells; an Apple GPU's driver has macOS's version."""
    hardware, software = (
        dict(*told.get(f"SP{kind}DataType", ())[:1])
        for kind in ("Hardware", "Software")
    )
    version = re.search(r"\d+(?:\.\d+)*", software.get("os_version", ""))
    rows = enumerate(told.get("SPDisplaysDataType", ()))
    gpus = tuple(_gpu(n, row, version[0] if version else None) for n, row in rows)
    own, platform = [gpu for gpu in gpus if gpu.vendor == "apple"], this_platform()
    kind = "rosetta" if told.get("translated") else "" if own else platform
    return Host(
        platform,
        software.get("kernel_version", "").removeprefix("Darwin "),
        firmware=hardware.get("boot_rom_version", ""),
        surroundings=("vm",) if "Virtual" in hardware.get("machine_model", "") else (),
        gpus=gpus,
        system=System(refused={"apple": ("no-metal", "")}),  # of one without a driver
        variables=dict(variables),
        remarks=tuple(
            f"{name} is set: the CPU computes what torch has not for the GPU, in silence"
            for name in fallback_settings(variables, "mps")
        ),
        elsewhere=devices.elsewhere.get(kind, ""),
    )


def _gpu(number: int, row: Mapping[str, str], version: str | None) -> Gpu:
    vendor = next(
        (v for v in MAKERS if v in row.get("spdisplays_vendor", "").lower()), "other"
    )
    name = row.get("sppci_model") or row.get("_name") or f"{vendor} GPU"
    device_id = row.get("spdisplays_device-id", "").removeprefix("0x")
    own, address = (
        vendor == "apple",
        f"{row.get('sppci_bus', '').partition('_')[2]}:{number}",
    )
    metal = any(
        "not" not in row.get(key, "not") for key in _METAL
    )  # spdisplays_notsupported
    driver = Driver("Metal", version) if own and metal else None
    return Gpu(
        vendor, device_id, name, address, supported=own, integrated=own, driver=driver
    )
