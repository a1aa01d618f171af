"""What a device or a machine may lack without being faulty: probed for real, not looked up.

Each function takes the device and returns "" where the capability is present, otherwise the reason
why not. A check that needs it is not required then (`smoke.engine.check.check`). Only what is
documented as absent from healthy devices excuses a check: any other error of a probe leaves the
check to run, and to fail with it.
"""

import re
from collections.abc import Callable

import torch
from torch import distributed

from smoke.device import compilers, devices

LARGE = 2**32 + 2**28  # bytes
# How SYCL, IPEX 2.1 and the driver's compiler refuse a kernel with float64 arithmetic
# (intel/torch-xpu-ops#1742, csrc/gpu/utils/DPCPP.h of IPEX 2.1.10, ur_api.h error 41).
NO_FLOAT64 = re.compile(
    r"aspect fp64 is not supported|FP64 data type is unsupported|PROGRAM_BUILD_FAILURE"
    r"|(double|float64|fp64)\b.*\b(not supported|unsupported)|support\w* (double|float64|fp64)",
    re.IGNORECASE,
)


def float64(device: torch.device) -> str:
    """Probe arithmetic in float64; Arc A, Flex, integrated GPUs before Arc, and Macs have none.

    A cast proves nothing: Intel's are emulated (intel/torch-xpu-ops cmake/BuildFlags.cmake), so
    ``.double()`` passes where ``reciprocal`` fails (pytorch/pytorch#147731).
    """
    if devices.has_float64(device) is True:
        return ""  # what fails nevertheless is an error
    try:
        value = torch.full((3,), 4.0, device=device).double()
        float((value * value + value).reciprocal().sum().cpu())
    except (RuntimeError, TypeError) as error:  # TypeError: on a Mac
        if devices.has_float64(device) is None and not NO_FLOAT64.search(str(error)):
            raise
        return f"the device has no float64: {str(error).splitlines()[0][:120]}"
    return ""


def large_tensors(device: torch.device) -> str:
    """Probe for `LARGE` bytes: IPEX 2.1 refuses them, integrated GPUs and WSL don't tell."""
    try:
        free = int(devices.backend(device).mem_get_info(device)[0])
        if free <= 1.5 * LARGE:
            return f"only {free / 2**30:.1f} GiB of memory are free"
        torch.empty(LARGE, dtype=torch.uint8, device=device)
    except (RuntimeError, AttributeError) as error:
        line = str(error).splitlines()[0][:120]
        return f"the device does not say that it may: {line}"
    return ""


def backend(device: torch.device) -> str | None:
    """Return the collective back end for tensors of a device, None where torch has none for it.

    Windows has neither NCCL nor XCCL (torch's documentation of torch.distributed;
    cmake/Modules/FindXCCL.cmake of intel/torch-xpu-ops), torch 2.1 no XCCL, and a Mac no GPU's.
    """
    names = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}
    name = names.get(devices.kind(device), "")
    is_built: Callable[[], bool] = getattr(distributed, f"is_{name}_available", bool)
    return name if is_built() else None


def collectives(device: torch.device) -> str:
    """Probe for a collective back end that takes tensors of the device; see `backend`."""
    if not distributed.is_available() or backend(device):
        return ""  # without the whole package the check fails: each wheel of these platforms has it
    return (
        f"this torch is built without a collective back end for {devices.kind(device)}"
    )


def compiler(device: torch.device) -> str:
    """Probe what torch.compile needs on the device besides its packages, by compiling with it.

    Triton needs a C compiler on CUDA and a C++ compiler with Level Zero on XPU, Inductor a C++
    compiler for the CPU; see `smoke.device.compilers`.
    """
    probes = {"cuda": compilers.for_triton_cuda, "xpu": compilers.for_triton_xpu}
    return probes.get(devices.kind(device), compilers.for_inductor)()


def triton(device: torch.device) -> str:
    """Probe whether Triton supports the device: it needs compute capability 7.0 on CUDA.

    GPUTooOldForTriton in torch/_inductor/exc.py. That Triton itself can be imported is promised by
    a lock that holds it, so it is not asked here: without it the check fails.
    """
    if devices.kind(device) != "cuda":
        return ""
    major, minor = torch.cuda.get_device_capability(device)
    if major >= 7:
        return ""
    return f"Triton needs compute capability 7.0, this GPU has {major}.{minor}"
