"""Driver versions: NVIDIA's from its management library, and the comparison with a minimum."""

from __future__ import annotations

import ctypes
import os
import re


def nvidia_driver() -> str | None:
    """Return the version that NVML reports: it comes with the driver and needs no CUDA context."""
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
    """Return whether a driver version is at least ``>=floor``, None if they can't be compared.

    Level Zero reports 1.6.33578 for the driver that Intel's packages call 25.18.33578. Where only
    one of the two has that prefix of 1, the builds are compared: the only number of five digits.
    """
    have, need = _parts(found), _parts(floor)
    builds = [part for parts in (have, need) for part in parts if part >= 10000]
    if have[0] != need[0] and 1 in (have[0], need[0]):
        return builds[0] >= builds[1] if len(builds) == 2 else None
    return have >= need
