"""Selection: programs that choose a device themselves choose that of the target."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from smoke.checks import check
from smoke.finding import fail

if TYPE_CHECKING:
    from smoke.expect import Expect

IPEX = "intel_extension_for_pytorch"
# Shared libraries of an accelerator, as they are mapped into a process.
LIBRARIES = {
    "cuda": re.compile(r"/(libcudart|libcublas|libtorch_cuda|libc10_cuda)[.\-\w]*\.so"),
    "xpu": re.compile(r"/(libsycl|libtorch_xpu|libc10_xpu|libze_loader|libintel-ext-pt-gpu)"),
}


def picked() -> str:
    """Choose as sd-scripts' device_utils does: CUDA, then XPU, then MPS, then the CPU."""
    xpu = getattr(torch, "xpu", None)
    if torch.cuda.is_available():
        return "cuda"
    if xpu is not None and xpu.is_available():
        return "xpu"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@check(
    "selection.order",
    stands_for="sd-scripts takes the first of CUDA, XPU, MPS that is available",
    depends=(),
)
def test_order(expect: Expect, device: torch.device) -> None:
    """A program that tries CUDA, XPU, MPS in turn selects the target's device."""
    found = picked()
    if found != expect.accelerator:
        fail(
            "wrong-device-selected",
            f"a program that chooses itself selects {found}, the target is {expect.accelerator}",
            cause=f"{found} is available as well, or {device.type} is not",
            remedy="hide the other device, or name the device in the program",
            evidence=[f"selected {found}", f"torch {torch.__version__}"],
        )


@check("selection.clean", stands_for="IPEX provides torch.xpu and replaces torch.cuda", depends=())
def test_clean(expect: Expect) -> None:
    """No library of another accelerator is loaded, and torch's entry points are unchanged."""
    traces = _hijacked() + _libraries(expect)
    if IPEX in sys.modules and not expect.locks("intel-extension-for-pytorch"):
        traces.append(f"module {IPEX} is imported")
    if traces:
        fail(
            "foreign-code-loaded",
            f"code of another stack is in the process: {traces[0]}",
            cause="a package of another target is installed, or an import changed torch",
            remedy="build the environment again from its lock",
            evidence=traces,
        )


def _hijacked() -> list[str]:
    """Return the entry points of torch that another package replaced."""
    traces = []
    if getattr(torch.cuda, "is_xpu_hijacked", False):
        traces.append("torch.cuda.is_xpu_hijacked is set")
    if torch.cuda.is_available.__module__ != "torch.cuda":
        traces.append(f"torch.cuda.is_available is {torch.cuda.is_available.__module__}'s")
    return traces


def _libraries(expect: Expect) -> list[str]:
    """Return mapped libraries of accelerators that the target does not have (Linux only)."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return []
    text = maps.read_text(encoding="utf-8")
    ours = {expect.accelerator, "cuda" if expect.locks_cuda else ""}
    return [
        f"library {found[0]}"
        for name, pattern in LIBRARIES.items()
        if name not in ours and (found := pattern.search(text))
    ]
