"""Rules on native libraries: which are not found, and which come from elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.environment.installed import parse_version
from provision.environment.reading import list_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext
    from provision.doctor.libraries import MissingLibrary
    from provision.environment.installed import InstalledDistribution

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

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        groups: dict[tuple[str, Level], list[MissingLibrary]] = {}
        for missing in context.missing:
            groups.setdefault(_kind(missing, context), []).append(missing)
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


def _kind(missing: MissingLibrary, context: DoctorContext) -> tuple[str, Level]:
    if _DRIVER.fullmatch(missing.name):
        # A CUDA build on a machine without such a card is what a plain installation gives.
        return "driver-missing", Level.ERROR if context.gpus("nvidia") else Level.NOTE
    if _ONEAPI.fullmatch(missing.name):
        return "oneapi-runtime-missing", Level.ERROR
    if _CUDA.fullmatch(missing.name):
        return "cuda-library-mismatch", Level.ERROR
    return "missing-dll-windows" if context.env.windows else "missing-library", Level.ERROR


def _remedy(name: str) -> str:
    for start, remedy in _BROUGHT_BY.items():
        if name.lower().startswith(start.lower()):
            return remedy
    if _CUDA.fullmatch(name):
        return "uv pip install --reinstall torch, so that its own nvidia-* packages come back"
    return f"Install the package that brings {name}, or build the target again"


class SameLibraryTwice:
    """Two of NVIDIA's packages, for two CUDAs, write a library of the same name."""

    code: ClassVar[str] = "cuda-library-mismatch"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        libraries: dict[tuple[str, str], list[InstalledDistribution]] = {}
        for dist in context.env.like("nvidia-"):
            # nvidia-nccl-cu11 and -cu12 both bring nvidia/nccl/lib/libnccl.so.2.
            if name := re.fullmatch(r"(nvidia-[\w-]+)-cu\d+", dist.name):
                major = dist.version.partition(".")[0]
                libraries.setdefault((name[1], major), []).append(dist)
        twice = [several for several in libraries.values() if len(several) > 1]
        if twice:
            uninstall = " ".join(dist.name for several in twice for dist in several)
            yield Finding(
                self.code,
                Level.WARNING,
                "Packages for two CUDAs lie in the same folders, and the last one written is used",
                "Another package, or an older torch, brought NVIDIA's libraries for another CUDA",
                f"uv pip uninstall {uninstall}, then `uv pip install --reinstall torch`",
                tuple(
                    " and ".join(f"{dist.name} {dist.version}" for dist in several)
                    for several in twice[:5]
                ),
            )


class NewMkl:
    """MKL 2024.1 dropped a symbol that conda's builds of torch before 2.3 import from it."""

    code: ClassVar[str] = "mkl-abi-break"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        names = list_names(context.env.prefix / "conda-meta")
        found = (re.match(r"(mkl|pytorch)-(\d[\w.]*)-", name) for name in names)
        versions = {match[1]: match[2] for match in found if match}
        mkl, torch = (parse_version(versions.get(name, "")) for name in ("mkl", "pytorch"))
        if mkl and torch and mkl.release >= (2024, 1) and torch.release < (2, 3):
            yield Finding(
                self.code,
                Level.ERROR,
                "import torch fails with an undefined symbol, iJIT_NotifyEvent",
                "MKL 2024.1 no longer has a symbol that this torch takes from it "
                "(https://github.com/pytorch/pytorch/issues/123097)",
                "conda install 'mkl<2024.1'",
                (f"mkl {mkl} and pytorch {torch} are installed by conda",),
            )


class Setvars:
    """A system oneAPI comes before the runtime that the wheels bring."""

    code: ClassVar[str] = "oneapi-version-conflict"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        variables = context.host.variables
        bundled = context.env.get("intel-sycl-rt") or context.env.get("dpcpp-cpp-rt")
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
