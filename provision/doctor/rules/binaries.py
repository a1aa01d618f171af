"""Rules on native libraries: missing ones, and ones of another release or origin."""

from collections import defaultdict
from collections.abc import Sequence

from provision.core.findings import Level
from provision.doctor.context import (
    DoctorContext,
    Findings,
    MissingLibrary,
    case,
    unless,
)
from provision.doctor.data import data, is_library_of
from provision.doctor.environment import Environment


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
        names = [missing.name for missing in libraries[:6]]
        facts = {"names": ", ".join(names), "remedy": _remedies(names, context.env)}
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


def _remedies(names: Sequence[str], env: Environment) -> str:
    remedies = list(dict.fromkeys(_remedy(name, env) for name in names))
    if len(remedies) == 1:
        return remedies[0]
    # A command alone becomes a part of a text.
    return ". ".join(f"`{text}`" if text[0].islower() else text for text in remedies)


def _remedy(library: str, env: Environment) -> str:
    for start, remedy in data("packages")["install"].items():
        if library.lower().startswith(start):
            return str(remedy)
    if is_library_of("cuda", library) or is_library_of("oneapi", library):
        if env.built_for:
            repair = f"`provision verify {env.built_for} --repair`"
            return f"{repair}, where the wheels have it"
        return (
            f"Run `uv pip check {env.option}`, which names the libraries that torch"
            f" requires, and install them with `uv pip install {env.option} --no-deps"
            " NAME==VERSION`"
        )
    return f"Install the system's package that provides {library}, or build the target again"
