"""Lines that healthy stacks print and that change no result, each with its source.

"file N" is the number of a page in a public index of code.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

PCI_DEVICES = "/sys/bus/pci/devices"


class Harmless(NamedTuple):
    """One kind of line: why it is harmless, its pattern, and where it was seen."""

    reason: str
    pattern: str
    source: str


HARMLESS = (
    Harmless(
        "IPEX replaces operators of torch, as intended",
        # Line by line: "no kernel registered at all for dispatch key: XPU" is none of them.
        r"Overriding a previously registered kernel|Warning only once for all operators"
        r"|^\s+operator: |^\s+registered at |^\s+dispatch key: \w+$|^\s+previous kernel: "
        r"|^\s+new kernel: registered at ",
        "intel/intel-extension-for-pytorch#812; files 46654234166, 13583294794",
    ),
    Harmless(
        "a later version will remove this; the lock holds the version",
        r"(Future|Deprecation|PendingDeprecation)Warning: ",
        "Python's warning categories",
    ),
    Harmless(
        "torchvision lacks libpng or libjpeg, which only its image reader needs",
        r"Failed to load image Python extension",
        "file 13172896952",
    ),
    Harmless(
        "IPEX looks for a CUDA toolkit, which it does not need",
        r"No CUDA runtime is found",
        "torch/utils/cpp_extension.py",
    ),
    Harmless(
        "ipex-llm reports that it imported IPEX",
        r"intel_extension_for_pytorch auto imported",
        "ipex_llm/__init__.py of ipex-llm 2.2.0",
    ),
    Harmless(
        "telemetry is not available, which WSL and some drivers lack; nothing else needs it",
        r"Can't initialize Level Zero Sysman|SysMan support is unavailable on this system",
        "pytorch/pytorch#194487, #185198, #197509, #194576; unified-runtime, level_zero/common",
    ),
    Harmless(
        "one operator has no XPU kernel and runs on the CPU, as torch-xpu-ops intends",
        r"Aten Op fallback from XPU to CPU happends",
        "intel/torch-xpu-ops src/ATen/native/xpu/XPUFallback.cpp",
    ),
    Harmless(
        "an integrated GPU before Arc is listed beside the device; device.family judges the device",
        r"The detected GPU \(.*\) is not officially supported by PyTorch XPU"
        r"|Running workloads on this device may result in unexpected behavior"
        r"|For stable and fully supported execution, please use GPUs based on Intel"
        r"|Refer to the hardware prerequisites for more information",
        "intel/intel-xpu-backend-for-triton#5616",
    ),
    Harmless(
        "Inductor does not tune for GPUs with few multiprocessors",
        r"Not enough SMs to use max_autotune_gemm mode",
        "torch/_inductor/utils.py of torch 2.13",
    ),
    Harmless(
        "torch's list of capabilities is older than the GPU; device.family judges the code in it",
        r"Found GPU\d+ .* which is of (cuda capability|compute capability \(CC\)) "
        r"|torch[\\/]cuda[\\/]__init__\.py:\d+: UserWarning:\s*$"
        r"|Minimum and Maximum cuda capability supported by this version of PyTorch is"
        r"|^\s*\(\d+\.\d+\) - \(\d+\.\d+\)\s*$"
        r"|The following list shows the CCs this version of PyTorch was built for"
        r"|^- \d+\.\d+ which supports hardware CC "
        r"|does not include kernels for this GPU|^\s+For CUDA [\d.]+ use pip install torch=="
        r"|No published PyTorch CUDA builds for release .* support this GPU",
        "pytorch/pytorch#172629, #164596; sgl-project/sglang#13198",
    ),
)
_KNOWN = re.compile("|".join(f"(?:{each.pattern})" for each in HARMLESS))
_SMALL_BAR = re.compile(r"Resizable BAR not detected for device (\S+)")


def sort_lines(output: str) -> tuple[list[str], list[str]]:
    """Return the harmless and the other lines of a program's output.

    Below a warning Python prints the line of source that caused it, indented.
    """
    harmless: list[str] = []
    others: list[str] = []
    after_warning = False
    for line in filter(str.strip, output.splitlines()):
        known = is_harmless(line)
        source_line = after_warning and line.startswith("  ")
        (harmless if known or source_line else others).append(line)
        after_warning = known
    return harmless, others


def is_harmless(line: str) -> bool:
    """Return whether a line is known to change nothing on this machine."""
    if small_bar := _SMALL_BAR.search(line):
        # With i915 copies are slower; xe drops the device (intel/compute-runtime#997, #933).
        return _kernel_driver(small_bar[1]) == "i915"
    return bool(_KNOWN.search(line))


def _kernel_driver(address: str) -> str | None:
    """Return the kernel driver of a PCI device, None where the system does not show it."""
    try:
        link = os.readlink(f"{PCI_DEVICES}/{address.lower().rstrip('.,')}/driver")  # noqa: PTH115
    except OSError:
        return None
    return link.rpartition("/")[2]
