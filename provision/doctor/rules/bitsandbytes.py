"""Rule on bitsandbytes, which has one library per GPU runtime and else computes on the CPU."""

from __future__ import annotations

import re

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.environment.reading import list_names

_LIBRARY = re.compile(r"libbitsandbytes_cuda(\d+)\.(so|dll)")
# From here on a library for the same CUDA major is accepted; before, for the exact version only.
_FIRST_COMPATIBLE = "0.50"
_FIRST_FOR_XPU = "0.47"  # through Triton kernels; 0.48 added a library of its own


@unless("cpu-build-of-torch-installed", "half-installed")
def no_gpu_library(context: DoctorContext) -> Findings:
    """Bitsandbytes has no library for the GPU runtime of this torch."""
    found, torch = context.env.get("bitsandbytes"), context.env.torch
    if found is None or torch is None:
        return
    runtime = ""
    names = list_names(found.folder.parent / "bitsandbytes")
    libraries = [match for name in names if (match := _LIBRARY.fullmatch(name))]
    if context.env.accelerator == "cuda" and torch.cuda:
        wanted = torch.cuda.replace(".", "")  # cuda118 is for CUDA 11.8
        serves = wanted if found.is_before(_FIRST_COMPATIBLE) else wanted[:-1]
        own = "dll" if context.env.windows else "so"
        if not any(m[1].startswith(serves) and m[2] == own for m in libraries):
            runtime = f"CUDA {torch.cuda}"
    elif context.env.accelerator == "xpu" and found.is_before(_FIRST_FOR_XPU):
        runtime = "XPU"
    if runtime:
        has = ", ".join([match[0] for match in libraries][-5:]) or "no GPU library"
        evidence = (f"bitsandbytes {found.version} contains {has}",)
        yield case("bitsandbytes", evidence, runtime=runtime, version=found.version)
