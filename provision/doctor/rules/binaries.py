"""Rules on native libraries: which are not found, and which come from elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from provision.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.facts import Facts
    from provision.doctor.libraries import Missing

_ONEAPI = re.compile(
    r"lib(sycl|mkl|ze_|ur_|pi_|OpenCL|intlc|svml|imf|irng|irc|iomp5|ccl|umf|dnnl|tbb|xptifw|hwloc)\S*"
    r"|(sycl\d|mkl_|ur_|pi_|ze_loader|libmmd|svml_dispmd|tbb|dnnl|libiomp5md|opencl)\S*\.dll",
    re.IGNORECASE,
)
_CUDA = re.compile(
    r"lib(cudnn|cublas|cusparse|nvJitLink|nccl|cufft|curand|cudart|cupti|nvrtc|nvToolsExt|cusolver"
    r"|cufile|nvshmem)\S*|(cudnn|cublas|cusparse|cufft|curand|cudart|cupti|nvrtc|cusolver)\S*\.dll",
    re.IGNORECASE,
)
_DRIVER = re.compile(r"libcuda\.so\S*|nvcuda\.dll|libnvidia-ml\S*", re.IGNORECASE)
# What brings a library that is missing most often.
_BROUGHT_BY = {
    "libze_loader": "sudo apt-get install libze1 (the Level Zero loader comes from the system)",
    "ze_loader": "install Intel's graphics driver, which brings the Level Zero loader",
    "libOpenCL": "sudo apt-get install ocl-icd-libopencl1",
    "uv.dll": "conda install -c conda-forge libuv",
    "libuv": "conda install -c conda-forge libuv",
    "libomp140": "install the Visual C++ 2015-2022 Redistributable (x64) of Microsoft",
    "libsycl": "uv pip install intel-sycl-rt of the release that torch pins",
    "libmkl": "uv pip install onemkl-sycl-blas and mkl of the release that torch pins",
    "libstdc++": "sudo apt-get install libstdc++6",
    "libgomp": "sudo apt-get install libgomp1",
}


class MissingLibraries:
    """A native library that torch or a companion imports is not found."""

    code: ClassVar[str] = "oneapi-runtime-missing"
    unless: ClassVar[tuple[str, ...]] = (
        "half-installed",
        "ipex-in-cuda-env",
        "torch-companion-mismatch",
        "ipex-torch-version-mismatch",
    )

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        groups: dict[tuple[str, Level], list[Missing]] = {}
        for missing in facts.missing:
            groups.setdefault(_kind(missing, facts), []).append(missing)
        for (code, level), several in groups.items():
            names = ", ".join(missing.name for missing in several[:6])
            yield Finding(
                code,
                level,
                f"Native libraries are not found: {names}",
                "They are not installed, or not where the loader looks",
                _remedy(several[0].name),
                tuple(f"{m.wanted_by} imports {m.name}, which is not found" for m in several[:6]),
            )


def _kind(missing: Missing, facts: Facts) -> tuple[str, Level]:
    if _DRIVER.fullmatch(missing.name):
        # A CUDA build on a machine without such a card is what a plain installation gives.
        return "driver-missing", Level.ERROR if facts.gpus("nvidia") else Level.NOTE
    if _ONEAPI.fullmatch(missing.name):
        return "oneapi-runtime-missing", Level.ERROR
    if _CUDA.fullmatch(missing.name):
        return "cuda-library-mismatch", Level.ERROR
    return "missing-dll-windows" if facts.env.windows else "missing-library", Level.ERROR


def _remedy(name: str) -> str:
    for start, remedy in _BROUGHT_BY.items():
        if name.lower().startswith(start.lower()):
            return remedy
    if _CUDA.fullmatch(name):
        return "uv pip install --reinstall torch, so that its own nvidia-* packages come back"
    return f"Install the package that brings {name}, or build the target again"


class Setvars:
    """A system oneAPI comes before the runtime that the wheels bring."""

    code: ClassVar[str] = "oneapi-version-conflict"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        variables = facts.host.variables
        bundled = facts.env.get("intel-sycl-rt") or facts.env.get("dpcpp-cpp-rt")
        marks = [f"{name}={variables[name][:200]}"
                 for name in ("SETVARS_COMPLETED", "ONEAPI_ROOT", "CMPLR_ROOT", "LD_LIBRARY_PATH")
                 if "oneapi" in variables.get(name, "").lower() or
                 (name == "SETVARS_COMPLETED" and name in variables)]  # fmt: skip
        if bundled is None or not marks:
            return
        yield Finding(
            self.code,
            Level.ERROR if "LD_LIBRARY_PATH" in str(marks) else Level.WARNING,
            "A system oneAPI is active over the runtime that the wheels bring",
            "setvars.sh was sourced in this shell, so its libraries are loaded first",
            "Start from a shell without setvars.sh, or `provision run TARGET -- …`",
            (f"{bundled.name} {bundled.version} is installed", *marks),
        )
