"""Selection: programs that look for a device themselves find the target's, and nothing else."""

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
# Libraries of an accelerator, as they are mapped into a process.
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


@check("selection.order", stands_for="sd-scripts takes the first of CUDA, XPU, MPS that answers")
def test_order(expect: Expect, device: torch.device) -> None:
    """A program that asks CUDA, XPU, MPS in turn arrives at the target's device."""
    found = picked()
    if found != expect.accelerator:
        fail(
            "wrong-device-selected",
            f"a program that looks for itself picks {found}, the target is {expect.accelerator}",
            cause=f"{found} answers as well, or {device.type} does not",
            remedy="hide the other device, or name the device in the program",
            evidence=[f"picked {found}", f"torch {torch.__version__}"],
        )


@check("selection.clean", stands_for="IPEX answers for torch.xpu and hijacks torch.cuda")
def test_clean(expect: Expect) -> None:
    """Nothing of another accelerator is loaded, and torch's own entry points are its own."""
    traces = _hijacked() + _libraries(expect)
    if IPEX in sys.modules and not expect.locks("intel-extension-for-pytorch"):
        traces.append(f"module {IPEX} is imported")
    if traces:
        fail(
            "foreign-code-loaded",
            f"code of another stack is in the process: {traces[0]}",
            cause="a package of another target is installed here, or an import changed torch",
            remedy="build the environment again from its lock",
            evidence=traces,
        )


def _hijacked() -> list[str]:
    """Name entry points of torch that are not torch's any more."""
    traces = []
    if getattr(torch.cuda, "is_xpu_hijacked", False):
        traces.append("torch.cuda.is_xpu_hijacked is set")
    if torch.cuda.is_available.__module__ != "torch.cuda":
        traces.append(f"torch.cuda.is_available is {torch.cuda.is_available.__module__}'s")
    return traces


def _libraries(expect: Expect) -> list[str]:
    """Name mapped libraries of accelerators that the target has not (Linux only)."""
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
