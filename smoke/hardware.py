"""Facts about GPUs and drivers that need no torch."""

from __future__ import annotations

import ctypes
import os
import re

# Marketing name -> family, for the GPUs that the Intel stacks support (names as Level Zero and
# the Windows driver give them).
FAMILIES: tuple[tuple[str, str], ...] = (
    (r"Data Center GPU Max", "pvc"),
    (r"Data Center GPU Flex", "ats-m"),
    (r"Arc.* Pro A\d|Arc.* A\d{3}", "dg2"),
    (r"Arc.* Pro B\d|Arc.* B\d{3}", "bmg"),
    (r"Arc.* 1[34]0V", "lnl"),
    (r"Arc.* 1[34]0T", "arl-h"),
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


def reaches(found: str, floor: str) -> bool:
    """Say whether a driver version is at least ``>=floor``.

    Level Zero says 1.6.33578 where Intel's packages say 25.18.33578: then the build decides, the
    one number of both that has five digits.
    """
    have, need = _parts(found), _parts(floor)
    builds = [next((part for part in parts if part >= 10000), None) for parts in (have, need)]
    if have[:1] != need[:1] and all(builds):
        return bool(builds[0] >= builds[1])  # type: ignore[operator]
    return have >= need
