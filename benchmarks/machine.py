"""The properties of a machine that decide these figures, without its identity."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from provision.core.text import size

# With SHA-NI a core hashes 1.5 to 2 GB/s, without it 0.4: hashing is the largest part of a build.
_FLAGS = ("sha_ni", "avx2", "avx512f")


def describe_machine() -> dict[str, str]:
    """Return the facts that a reader needs to compare with another machine."""
    return {
        "cores": str(os.cpu_count()),
        "memory": size(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "CPU flags": " ".join(_cpu_flags()) or "none of " + " ".join(_FLAGS),
        "system": f"{sys.platform} {platform.machine()}",
        "Python": platform.python_version(),
        "uv": version("uv"),
    }


def _cpu_flags() -> list[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return []
    return [flag for flag in _FLAGS if f" {flag} " in text]
