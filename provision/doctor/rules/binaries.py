"""Rules on native libraries: missing ones, and ones of another release or origin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provision.core.findings import Level
from provision.doctor.rules.case import case, unless
from provision.environment.installed import parse_version
from provision.environment.reading import list_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.findings import Finding
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
# How to install the libraries that are missing most often, by the start of their names.
_INSTALL = {
    "libze_loader": "Install the Level Zero loader of the system: `sudo apt-get install libze1`",
    "ze_loader": "Install Intel's graphics driver, which contains the Level Zero loader",
    "libOpenCL": "sudo apt-get install ocl-icd-libopencl1",
    "uv.dll": "conda install -c conda-forge libuv",
    "libuv": "conda install -c conda-forge libuv",
    "libomp140": "Install Microsoft's Visual C++ 2015-2022 Redistributable (x64)",
    "libsycl": "Install the intel-sycl-rt that torch pins: `uv pip install --reinstall torch`",
    "libmkl": "Install the mkl that torch pins: `uv pip install --reinstall torch`",
    "libstdc++": "sudo apt-get install libstdc++6",
    "libgomp": "sudo apt-get install libgomp1",
}


@unless(
    "half-installed", "ipex-in-cuda-env", "torch-companion-mismatch", "ipex-torch-version-mismatch"
)
def missing_libraries(context: DoctorContext) -> Iterator[Finding]:
    """A native library that torch or a companion imports is not found."""
    groups: dict[tuple[str, Level], list[MissingLibrary]] = {}
    for missing in context.missing:
        groups.setdefault(_kind(missing, context), []).append(missing)
    for (code, level), several in groups.items():
        names = ", ".join(missing.name for missing in several[:6])
        yield case(
            "missing-libraries",
            (f"{m.wanted_by} imports {m.name}, which is not found" for m in several[:6]),
            code=code,
            level=level,
            names=names,
            remedy=_remedy(several[0].name),
        )


def _kind(missing: MissingLibrary, context: DoctorContext) -> tuple[str, Level]:
    if _DRIVER.fullmatch(missing.name):
        # Without an NVIDIA card this is no fault: `pip install torch` gives a CUDA build on Linux.
        return "driver-missing", Level.ERROR if context.gpus("nvidia") else Level.NOTE
    if _ONEAPI.fullmatch(missing.name):
        return "oneapi-runtime-missing", Level.ERROR
    if _CUDA.fullmatch(missing.name):
        return "cuda-library-mismatch", Level.ERROR
    return "missing-dll-windows" if context.env.windows else "missing-library", Level.ERROR


def _remedy(name: str) -> str:
    for start, remedy in _INSTALL.items():
        if name.lower().startswith(start.lower()):
            return remedy
    if _CUDA.fullmatch(name):
        return "Install torch again with its nvidia-* packages: `uv pip install --reinstall torch`"
    return f"Install the package that provides {name}, or build the target again"


def same_library_twice(context: DoctorContext) -> Iterator[Finding]:
    """NVIDIA packages for two CUDA versions install a library of the same name."""
    libraries: dict[tuple[str, str], list[InstalledDistribution]] = {}
    for dist in context.env.like("nvidia-"):
        # nvidia-nccl-cu11 and -cu12 both contain nvidia/nccl/lib/libnccl.so.2.
        if name := re.fullmatch(r"(nvidia-[\w-]+)-cu\d+", dist.name):
            major = dist.version.partition(".")[0]
            libraries.setdefault((name[1], major), []).append(dist)
    twice = [several for several in libraries.values() if len(several) > 1]
    if twice:
        uninstall = " ".join(dist.name for several in twice for dist in several)
        yield case(
            "same-library-twice",
            (
                " and ".join(f"{dist.name} {dist.version}" for dist in several)
                for several in twice[:5]
            ),
            names=uninstall,
        )


def new_mkl(context: DoctorContext) -> Iterator[Finding]:
    """Conda's builds of torch before 2.3 import a symbol that MKL 2024.1 removed."""
    names = list_names(context.env.prefix / "conda-meta")
    found = (re.match(r"(mkl|pytorch)-(\d[\w.]*)-", name) for name in names)
    versions = {match[1]: match[2] for match in found if match}
    mkl, torch = (parse_version(versions.get(name, "")) for name in ("mkl", "pytorch"))
    if mkl and torch and mkl.release >= (2024, 1) and torch.release < (2, 3):
        yield case("new-mkl", (f"mkl {mkl} and pytorch {torch} are installed by conda",))


def setvars(context: DoctorContext) -> Iterator[Finding]:
    """A system oneAPI precedes the runtime that was installed from wheels."""
    variables = context.host.variables
    bundled = context.env.get("intel-sycl-rt") or context.env.get("dpcpp-cpp-rt")
    marks = [f"{name}={variables[name][:200]}"
             for name in ("SETVARS_COMPLETED", "ONEAPI_ROOT", "CMPLR_ROOT", "LD_LIBRARY_PATH")
             if "oneapi" in variables.get(name, "").lower() or
             (name == "SETVARS_COMPLETED" and name in variables)]  # fmt: skip
    if bundled is None or not marks:
        return
    yield case(
        "setvars",
        (f"{bundled.name} {bundled.version} is installed", *marks),
        level=Level.ERROR if "LD_LIBRARY_PATH" in str(marks) else Level.WARNING,
    )


RULES = (
    same_library_twice,
    new_mkl,
    setvars,
    missing_libraries,
)
