"""NVIDIA's management library, and the version of the driver that it comes with."""

from __future__ import annotations

import ctypes
import os


def nvml() -> ctypes.CDLL | None:
    """Return the library, initialised; None without it. It needs no CUDA context."""
    try:
        library = ctypes.CDLL("nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library


def nvidia_driver() -> str | None:
    """Return the version of the driver, None where the library does not tell it."""
    library, text = nvml(), ctypes.create_string_buffer(96)  # the longest has 80
    if library is None or library.nvmlSystemGetDriverVersion(text, 96):
        return None
    return text.value.decode()
