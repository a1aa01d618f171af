"""Rules on native libraries: missing ones, and ones of another release or origin."""

from collections import defaultdict

from provision.core.findings import Level
from provision.doctor.context import (
    DoctorContext,
    Findings,
    MissingLibrary,
    case,
    unless,
)
from provision.doctor.data import data, is_library_of


def setvars(context: DoctorContext) -> Findings:
    """A system oneAPI precedes the runtime that was installed from wheels."""
    bundled = context.env.get("intel-sycl-rt") or context.env.get("dpcpp-cpp-rt")
    marks = []
    for name in ("SETVARS_COMPLETED", "ONEAPI_ROOT", "CMPLR_ROOT", "LD_LIBRARY_PATH"):
        value = context.host.variables.get(name, "")
        if "oneapi" in value.lower() or (name == "SETVARS_COMPLETED" and value):
            marks.append(f"{name}={value[:200]}")
    if bundled and marks:
        level = Level.WARNING
        if marks[-1].startswith("LD_LIBRARY_PATH"):  # which is searched first
            level = Level.ERROR
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
    by_code: dict[str, list[MissingLibrary]] = defaultdict(list)
    for missing in context.missing:
        by_code[_code_of(missing.name, windows=context.env.windows)].append(missing)
    for code, libraries in by_code.items():
        level = Level.ERROR
        # Without an NVIDIA card this is no error: `pip install torch` gives a CUDA build on Linux.
        if code == "driver-missing" and not context.gpus("nvidia"):
            level = Level.NOTE
        facts = {
            "names": ", ".join(missing.name for missing in libraries[:6]),
            "remedy": _remedy(libraries[0].name, context.env.built_for),
        }
        evidence = []
        for missing in libraries[:6]:
            line = f"{missing.importer} imports {missing.name}, which is not found"
            evidence.append(line)
        yield case("missing-libraries", evidence, code=code, level=level, facts=facts)


def _code_of(library: str, *, windows: bool) -> str:
    if is_library_of("driver", library):
        return "driver-missing"
    if is_library_of("oneapi", library):
        return "oneapi-runtime-missing"
    if is_library_of("cuda", library):
        return "cuda-library-mismatch"
    return "missing-dll-windows" if windows else "missing-library"


def _remedy(library: str, built_for: str) -> str:
    for start, remedy in data("packages")["install"].items():
        if library.lower().startswith(start):
            return str(remedy)
    if is_library_of("cuda", library) or is_library_of("oneapi", library):
        if built_for:
            return f"`provision verify {built_for} --repair`, where the wheels have it"
        return (
            "Run `uv pip check`, which names the libraries that torch requires, and"
            " install them with `uv pip install --no-deps NAME==VERSION`; in a built"
            " target run `provision verify TARGET --repair`"
        )
    return f"Install the system's package that provides {library}, or build the target again"
