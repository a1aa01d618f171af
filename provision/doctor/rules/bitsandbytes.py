"""Rule on bitsandbytes, which has one library per GPU runtime and else computes on the CPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.environment.reading import list_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext
    from provision.environment.installed import InstalledDistribution

_LIBRARY = re.compile(r"libbitsandbytes_cuda(\d+)\.(so|dll)")
# From here on a library for the same CUDA major is accepted; before, for the exact version only.
_FIRST_COMPATIBLE = "0.50"
_FIRST_FOR_XPU = "0.47"  # through Triton kernels; 0.48 added a library of its own


class NoGpuLibrary:
    """bitsandbytes has no library for the GPU runtime of this torch."""

    code: ClassVar[str] = "bitsandbytes-no-gpu-build"
    unless: ClassVar[tuple[str, ...]] = ("cpu-build-of-torch-installed", "half-installed")

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        found, torch = context.env.get("bitsandbytes"), context.env.torch
        if found is None or torch is None:
            return
        names = list_names(found.folder.parent / "bitsandbytes")
        libraries = [match for name in names if (match := _LIBRARY.fullmatch(name))]
        if context.env.accelerator == "cuda" and torch.cuda:
            wanted = torch.cuda.replace(".", "")  # cuda118 is for CUDA 11.8
            serves = wanted if found.is_before(_FIRST_COMPATIBLE) else wanted[:-1]
            own = "dll" if context.env.windows else "so"
            if not any(m[1].startswith(serves) and m[2] == own for m in libraries):
                yield self._finding(found, f"CUDA {torch.cuda}", [m[0] for m in libraries])
        elif context.env.accelerator == "xpu" and found.is_before(_FIRST_FOR_XPU):
            yield self._finding(found, "XPU", [m[0] for m in libraries])

    def _finding(self, found: InstalledDistribution, runtime: str, has: list[str]) -> Finding:
        return Finding(
            self.code,
            Level.ERROR,
            f"bitsandbytes cannot use the GPU: it has no library for {runtime}",
            f"bitsandbytes {found.version} was built without {runtime} on this platform",
            "Run `uv pip install --upgrade bitsandbytes`, then check with `python -m bitsandbytes`",
            (f"bitsandbytes {found.version} contains {', '.join(has[-5:]) or 'no GPU library'}",),
        )


RULES = (NoGpuLibrary(),)
