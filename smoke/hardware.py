"""Facts about GPUs and drivers that need no torch."""

from __future__ import annotations

import ctypes
import os
import re

# Marketing name, as Level Zero and the Windows driver give it -> family, as the toolkit's catalog
# of devices calls it. First match wins. "Arc Graphics" alone is sold in several families.
FAMILIES: tuple[tuple[str, str], ...] = (
    (r"Data Center GPU Max", "pvc"),
    (r"Data Center GPU Flex|Arc.* A\d", "dg2"),
    (r"Arc.* B3[79]0", "ptl"),
    (r"Arc.* B\d", "bmg"),
    (r"Arc.* 1[34]0V", "lnl"),
    (r"Arc.* 1[34]0T", "arl"),
    (r"\bU?HD Graphics|\bIris", "integrated, before Arc"),
)


def family(name: str) -> str | None:
    """Return the Intel family of a device name, None for a name that says nothing."""
    return next((found for pattern, found in FAMILIES if re.search(pattern, name)), None)


def nvidia_driver() -> str | None:
    """Ask NVIDIA's management library, which comes with the driver and needs no CUDA context."""
    name = "nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return None
    text = ctypes.create_string_buffer(96)  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80
    if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, 96):
        return None
    return text.value.decode()


def _parts(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def reaches(found: str, floor: str) -> bool | None:
    """Say whether a driver version is at least ``>=floor``, None if they can't be compared.

    Level Zero says 1.6.33578 where Intel's packages say 25.18.33578: then the build decides, the
    one number of both that has five digits.
    """
    have, need = _parts(found), _parts(floor)
    builds = [part for parts in (have, need) for part in parts if part >= 10000]
    if have[0] != need[0] and 1 in (have[0], need[0]):
        return builds[0] >= builds[1] if len(builds) == 2 else None
    return have >= need
