"""The version of NVIDIA's driver, from its management library."""

from __future__ import annotations

import ctypes
import os


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
