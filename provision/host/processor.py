"""The level of x86-64 that the processor of this machine reaches."""

import re
from pathlib import Path

from provision.core.limits import read_text

# Flags of /proc/cpuinfo that each level adds, after the x86-64 psABI, "Micro-Architecture Levels".
# The kernel calls SSE3 pni and LZCNT abm, and hides avx where the system does not save its state.
_ADDED = (
    {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"},
    {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
)


def x86_64_level(cpuinfo: Path = Path("/proc/cpuinfo")) -> int:
    """Return the level, 1 where the system does not show the flags of its processor."""
    try:
        match = re.search(r"^flags\s*:(.*)$", read_text(cpuinfo), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return 1
    flags = match[1].split() if match else []
    level = 1
    for added in _ADDED:
        if not added.issubset(flags):
            break
        level += 1
    return level
