"""Rules on native libraries: missing ones, and ones of another release or origin."""

import re

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.doctor.libraries import MissingLibrary, is_of
from provision.environment.reading import list_names

_BITSANDBYTES = re.compile(r"libbitsandbytes_cuda(\d+)\.(so|dll)")
# From here on a library for the same CUDA major is accepted; before, for the exact version only.
_FIRST_COMPATIBLE = "0.50"
_FIRST_FOR_XPU = "0.47"  # through Triton kernels; 0.48 added a library of its own


@unless("cpu-build-of-torch-installed", "half-installed")
def no_gpu_library(context: DoctorContext) -> Findings:
    """Bitsandbytes has no library for the GPU runtime of this torch."""
    found, torch = context.env.get("bitsandbytes"), context.env.torch
    if found is None or torch is None:
        return
    if context.accelerator == "cpu" and context.target is None:
        has = f"torch {torch.version} and {found} are installed"
        yield case("bitsandbytes-cpu", (has,), version=found.version)
    names, runtime = list_names(found.folder.parent / "bitsandbytes"), ""
    libraries = [match for name in names if (match := _BITSANDBYTES.fullmatch(name))]
    if context.env.accelerator == "cuda" and torch.cuda:
        wanted = torch.cuda.replace(".", "")  # cuda118 is for CUDA 11.8
        serves = wanted if found.is_before(_FIRST_COMPATIBLE) else wanted[:-1]
        own = "dll" if context.env.windows else "so"
        if not any(m[1].startswith(serves) and m[2] == own for m in libraries):
            runtime = f"CUDA {torch.cuda}"
    elif context.env.accelerator == "xpu" and found.is_before(_FIRST_FOR_XPU):
        runtime = "XPU"
    if runtime:
        own = ", ".join([match[0] for match in libraries][-5:]) or "no GPU library"
        evidence = (f"{found} contains {own}",)
        yield case("bitsandbytes", evidence, runtime=runtime, version=found.version)


def setvars(context: DoctorContext) -> Findings:
    """A system oneAPI precedes the runtime that was installed from wheels."""
    variables = context.host.variables
    bundled = context.env.get("intel-sycl-rt") or context.env.get("dpcpp-cpp-rt")
    marks = [
        f"{name}={variables[name][:200]}"
        for name in (
            "SETVARS_COMPLETED",
            "ONEAPI_ROOT",
            "CMPLR_ROOT",
            "LD_LIBRARY_PATH",
        )
        if "oneapi" in variables.get(name, "").lower()
        or (name == "SETVARS_COMPLETED" and name in variables)
    ]
    if bundled and marks:
        level = Level.ERROR if "LD_LIBRARY_PATH" in str(marks) else Level.WARNING
        yield case("setvars", (f"{bundled} is installed", *marks), level=level)


@unless(
    "half-installed",
    "ipex-in-cuda-env",
    "torch-companion-mismatch",
    "ipex-torch-version-mismatch",
    "compiled-extension-abi-mismatch",
)
def missing_libraries(context: DoctorContext) -> Findings:
    """A native library that torch or a companion imports is not found."""
    groups: dict[tuple[str, Level], list[MissingLibrary]] = {}
    for missing in context.missing:
        groups.setdefault(_kind(missing, context), []).append(missing)
    for (code, level), several in groups.items():
        names = ", ".join(missing.name for missing in several[:6])
        evidence = (
            f"{m.wanted_by} imports {m.name}, which is not found" for m in several[:6]
        )
        facts = {"names": names, "remedy": _remedy(several[0].name)}
        yield case("missing-libraries", evidence, code=code, level=level, facts=facts)


def _kind(missing: MissingLibrary, context: DoctorContext) -> tuple[str, Level]:
    if is_of("driver", missing.name):
        # Without an NVIDIA card this is no fault: `pip install torch` gives a CUDA build on Linux.
        return "driver-missing", Level.ERROR if context.gpus("nvidia") else Level.NOTE
    if is_of("oneapi", missing.name):
        return "oneapi-runtime-missing", Level.ERROR
    if is_of("cuda", missing.name):
        return "cuda-library-mismatch", Level.ERROR
    return (
        "missing-dll-windows" if context.env.windows else "missing-library",
        Level.ERROR,
    )


def _remedy(name: str) -> str:
    for start, remedy in data("packages")["install"].items():
        if name.lower().startswith(start):
            return str(remedy)
    if is_of("cuda", name) or is_of("oneapi", name):
        return (
            "Run `uv pip check`, which names the libraries that torch requires, and"
            " install them with `uv pip install --no-deps NAME==VERSION`; in a built"
            " target run `provision verify TARGET --repair`"
        )
    return (
        f"Install the system's package that provides {name}, or build the target again"
    )
