"""Probe whether this machine can compile what Inductor and Triton generate: try it.

A compiler on PATH proves little: headers of Python or of Level Zero, or on Windows the variables of
Visual Studio, are missing more often than the program.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from smoke.engine.files import scratch_folder

SECONDS = 100.0  # for a program of five lines; below the supervisor's limit of silence
PROMPT = "start from a Developer Command Prompt"
LEVEL_ZERO = "level_zero/ze_api.h"
_PYTHON = [sysconfig.get_path("include")]


def find(variable: str, *names: str) -> str | None:
    """Return the compiler that a variable names, otherwise the first on PATH, on Windows cl."""
    if compiler := os.environ.get(variable):
        return compiler
    if os.name == "nt":
        return shutil.which("cl")
    for name in names:
        if compiler := shutil.which(name):
            return compiler
    return None


def compiles(
    compiler: str | None,
    headers: Sequence[str],
    *,
    suffix: str,
    include: Sequence[str] = (),
    folders: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> str:
    """Return why a compiler can't build a shared library with some headers; "" if it can.

    Args:
        compiler: Program with its first arguments, as ``CC`` holds them; None where there is none.
        headers: What the library includes.
        suffix: ``.c`` or ``.cpp``.
        include: Folders of headers besides Python's.
        folders: Folders of libraries.
        libraries: Names to link with.
    """
    if os.name == "nt" and (unfit := _windows(compiler)):
        return unfit
    if compiler is None:
        return "no C compiler" if suffix == ".c" else "no C++ compiler"
    with scratch_folder() as folder:
        source = Path(folder, f"probe{suffix}")
        lines = [f"#include <{header}>\n" for header in headers]
        lines.append("int probe(void) { return 0; }\n")
        source.write_text("".join(lines), encoding="ascii")
        make = _cl if os.name == "nt" else _gcc
        argv = make(compiler, source.name, [*_PYTHON, *include], folders, libraries)
        try:
            done = subprocess.run(
                argv,
                cwd=folder,
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the compiler does not run: {error}"
    output = (done.stdout + done.stderr).decode(errors="replace")
    name = Path(compiler).name
    return f"{name} fails: {_first_error(output)}" if done.returncode else ""


def _gcc(
    compiler: str,
    source: str,
    include: Sequence[str],
    folders: Sequence[str],
    libraries: Sequence[str],
) -> list[str]:
    argv = [*compiler.split(), source, "-shared", "-fPIC"]
    argv += [f"-I{folder}" for folder in include]
    argv += [f"-L{folder}" for folder in folders]
    for name in libraries:
        argv.append(f"-l:{name}" if ".so" in name else f"-l{name}")
    return [*argv, "-o", "probe.out"]


def _cl(
    compiler: str,
    source: str,
    include: Sequence[str],
    folders: Sequence[str],
    libraries: Sequence[str],
) -> list[str]:
    # Not split: "C:\Program Files\..." holds spaces.
    argv = [compiler, "/nologo", source, "/LD"]
    argv += [f"/I{folder}" for folder in include]
    argv.append("/link")
    argv += [f"/LIBPATH:{folder}" for folder in folders]
    argv += [f"{name}.lib" for name in libraries]
    return argv


def _first_error(output: str) -> str:
    lines = output.strip().splitlines() or ["without a message"]
    first = lines[0]
    for line in lines:
        if "error" in line.lower() or "cannot find" in line:
            first = line
            break
    # Without folders: the reason is part of evidence, which names no place of a machine.
    return re.sub(r"(?:[A-Za-z]:)?[\\/](?:[^\\/:'\"]+[\\/])+", "", first.strip())[:200]


def for_inductor() -> str:
    """Return why Inductor can't build its kernels for the CPU; "" if it can.

    It takes ``CXX``, otherwise ``g++`` or ``cl`` (torch/_inductor/cpp_builder.py and config.py).
    """
    default = "clang++" if sys.platform == "darwin" else "g++"
    headers = ["vector"] if os.name == "nt" else ["vector", "Python.h"]
    return compiles(find("CXX", default), headers, suffix=".cpp")


def for_triton_cuda() -> str:
    """Return why Triton can't build its launcher for CUDA; "" if it can.

    It takes ``CC``, otherwise gcc or clang (triton/runtime/build.py); cuda.h is part of its wheel.
    """
    return compiles(find("CC", "gcc", "clang"), ["Python.h"], suffix=".c")


def for_triton_xpu() -> str:
    """Return why Triton can't build its launcher for XPU; "" if it can.

    It is C++, and links with Level Zero and SYCL; whether the headers of Level Zero are needed, and
    where they are looked for, differs between its versions (backends/intel/driver.py in the wheel).
    """
    driver = importlib.import_module("triton.backends.intel.driver")
    helper = getattr(driver, "COMPILATION_HELPER", None)
    helper = helper or getattr(driver, "compilation_helper", None)
    headers = ["Python.h"]
    for file in Path(str(driver.__file__)).parent.iterdir():
        is_source = file.name == "driver.py" or file.suffix in (".c", ".cpp")
        if is_source and LEVEL_ZERO in file.read_text("utf-8", errors="replace"):
            headers = ["Python.h", LEVEL_ZERO]
    return compiles(
        find("CXX", "g++", "clang++"),
        headers,
        suffix=".cpp",
        include=getattr(helper, "include_dir", ()),
        folders=getattr(helper, "library_dir", ()),
        libraries=getattr(helper, "libraries", ()),
    )


def _windows(compiler: str | None) -> str:
    """Return what a Developer Command Prompt would have set and is absent."""
    if compiler is None:
        return f"cl.exe is not on PATH: {PROMPT}"
    absent = [name for name in ("INCLUDE", "LIB") if not os.environ.get(name)]
    return f"{' and '.join(absent)} not set: {PROMPT}" if absent else ""
