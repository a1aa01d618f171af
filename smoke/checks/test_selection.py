"""Selection: programs that choose a device themselves choose that of the target."""

import os
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch

from smoke.engine import import_order
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.files import read_table
from smoke.engine.finding import REBUILD, fail, fail_if

IPEX = "intel_extension_for_pytorch"
TABLE = read_table(__file__, "own.json")
# A function of one of them that is found in the other was put there.
SWAPPED = {"cuda": "xpu", "xpu": "cuda"}
OPENMP = re.compile(r"/\S*/lib(?:gomp|iomp5|omp)(?:-\w+)?\.so[.\d]*$", re.MULTILINE)


def picked() -> str:
    """Choose as sd-scripts' device_utils does: CUDA, then XPU, then MPS, then the CPU."""
    xpu = getattr(torch, "xpu", None)
    if torch.cuda.is_available():
        return "cuda"
    if xpu is not None and xpu.is_available():
        return "xpu"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@check(
    "selection.order",
    stands_for="sd-scripts takes the first that is available",
)
def test_order(expect: Expect, device: torch.device) -> None:
    """A program that tries CUDA, XPU, MPS in turn selects the target's device."""
    found = picked()
    if found != expect.accelerator:
        fail(
            "wrong-device-selected",
            f"a program that chooses itself selects {found}, the target is {expect.accelerator}",
            [f"selected {found}", f"torch {torch.__version__}"],
            cause=f"{found} is available as well, or {device.type} is not",
            remedy="hide the other device, or name the device in the program",
        )


@check(
    "selection.clean",
    stands_for="IPEX provides torch.xpu and replaces torch.cuda",
)
def test_clean(expect: Expect, numbers: Numbers) -> None:
    """The entry points of torch are its own, and no library of another stack is loaded."""
    maps = Path("/proc/self/maps")  # Linux only
    mapped = maps.read_text(encoding="utf-8") if maps.exists() else ""
    traces = [*_hijacked(expect), *_libraries(expect, mapped)]
    runtimes = set(OPENMP.findall(mapped))
    numbers.record("OpenMP runtimes", len(runtimes), "count")
    if len(runtimes) > 1:  # healthy of one's own: torch's libgomp and MKL's libiomp5
        home = f"{Path(sys.prefix).resolve()}{os.sep}"
        for path in runtimes:
            if home not in path:
                traces.append(f"another OpenMP runtime is {path}")
    if IPEX in sys.modules and not expect.locks("intel-extension-for-pytorch"):
        traces.append(f"module {IPEX} is imported")
    fail_if(
        traces,
        "foreign-code-loaded",
        cause="a library path, a package of another target, or an import that changed torch",
        remedy=f"unset LD_LIBRARY_PATH and LD_PRELOAD, or {REBUILD}",
    )


def _hijacked(expect: Expect) -> Iterator[str]:
    """Yield the entry points of torch that others than the locked IPEX replaced."""
    if getattr(torch.cuda, "is_xpu_hijacked", False):
        yield "torch.cuda.is_xpu_hijacked is set"
    _torch, *theirs = import_order.operators(expect)
    folder = Path(torch.__file__).parent
    for owners, functions in TABLE["entry points"].items():
        for owner, function in product(owners.split(), functions.split()):
            name = f"{owner}.{function}"
            home, called = _home(torch, name.split("."))
            if not called or any(module in home for module in theirs):
                continue
            is_torch = home.startswith((str(folder), "torch")) and called == function
            if owner in SWAPPED and home.startswith(str(folder / SWAPPED[owner])):
                is_torch = False
            if not is_torch:
                yield f"torch.{name} is {called} of {home}"


def _home(found: Any, path: list[str]) -> tuple[str, str]:
    """Return where a function is from, its file or its module, and its name there."""
    for part in path:
        found = getattr(found, part, None)
    while not hasattr(found, "__code__") and hasattr(found, "__wrapped__"):
        found = found.__wrapped__  # of functools.cache
    if code := getattr(found, "__code__", None):
        return code.co_filename, code.co_name
    module = getattr(getattr(found, "__objclass__", found), "__module__", None)
    return str(module), getattr(found, "__name__", "")


def _libraries(expect: Expect, mapped: str) -> list[str]:
    """Return mapped libraries of accelerators that the target does not have."""
    libraries = []
    for name, pattern in TABLE["accelerators"].items():
        is_ours = name == expect.accelerator or (name == "cuda" and expect.locks_cuda)
        library = re.search(pattern, mapped)
        if library and not is_ours:
            libraries.append(f"library {library[0]}")
    return libraries
