"""Runs inside an environment: what the capabilities say of machines that are not this one.

``stand_ins.py OUT`` writes the answer of every function of `CASES` to a JSON file: {name: answer}.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.append(str(HERE.parents[1]))
sys.path.append(str(HERE))

import pretend  # noqa: E402 - the path comes first
import torch  # noqa: E402
from torch import distributed  # noqa: E402

from smoke.checks import test_offload, test_rotary, test_transfer  # noqa: E402
from smoke.device import (  # noqa: E402
    capabilities,
    compilers,
    devices,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEVICE, CPU = pretend.DEVICE, torch.device("cpu")
CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register a function as one case."""
    CASES[function.__name__] = function
    return function


def raises(text: str) -> Callable[..., Any]:
    def operator(*_args: object, **_more: object) -> None:
        raise RuntimeError(text)

    return operator


# Float64 ------------------------------------------------------------------------------------------


@contextmanager
def arithmetic(text: str = "", **properties: object) -> Iterator[None]:
    """Let float64 arithmetic raise a text on the device, whose properties say this."""
    backend = pretend.Backend
    said = SimpleNamespace(total_memory=1, **properties)
    with patch.object(backend, "get_device_properties", lambda *_args: said):
        if not text:
            yield
            return
        with pretend.spoiled("aten::reciprocal", raises(text)):
            yield


@case
def float64_is_there() -> str:
    with arithmetic():
        return capabilities.float64(DEVICE)


@case
def float64_is_refused_by_sycl() -> str:
    with arithmetic(
        "Required aspect fp64 is not supported on the device", has_fp64=False
    ):
        return capabilities.float64(DEVICE)


@case
def float64_is_refused_by_ipex_2_1_10() -> str:
    with arithmetic(
        "FP64 data type is unsupported on current platform.", support_fp64=False
    ):
        return capabilities.float64(DEVICE)


@case
def float64_is_refused_by_a_device_that_says_nothing_of_it() -> str:
    with arithmetic("error: 41 (UR_RESULT_ERROR_PROGRAM_BUILD_FAILURE)"):
        return capabilities.float64(DEVICE)


@case
def float64_does_not_come_to_a_mac() -> str:
    with arithmetic(has_fp64=False), patch.dict(pretend.SAYS, fp64="never"):
        return capabilities.float64(DEVICE)


@case
def float64_is_emulated() -> str:
    with arithmetic(has_fp64=False):
        return capabilities.float64(DEVICE)


@case
def float64_is_promised_and_refused() -> str:
    with arithmetic(
        "Required aspect fp64 is not supported on the device", has_fp64=True
    ):
        return capabilities.float64(DEVICE)


@case
def float64_meets_another_error() -> str:
    with arithmetic("UR_RESULT_ERROR_DEVICE_LOST"):
        try:
            return capabilities.float64(DEVICE)
        except RuntimeError as error:
            return f"raised {error}"


# Collectives --------------------------------------------------------------------------------------


def collectives(kind: str, **functions: bool) -> str:
    """Return what the capability says of a torch with these functions, and no others."""
    names = ("is_nccl_available", "is_xccl_available", "is_gloo_available")
    fake = SimpleNamespace(is_available=lambda: True)
    for name in names:
        if name in functions:
            setattr(fake, name, lambda answer=functions[name]: answer)
    with (
        patch.object(capabilities, "distributed", fake),
        patch.object(devices, "kind", lambda _device: kind),
    ):
        return capabilities.collectives(DEVICE)


@case
def collectives_of_cuda_on_linux() -> str:
    return collectives("cuda", is_nccl_available=True, is_gloo_available=True)


@case
def collectives_of_cuda_on_windows() -> str:
    return collectives("cuda", is_nccl_available=False, is_gloo_available=True)


@case
def collectives_of_xpu_on_windows() -> str:
    return collectives("xpu", is_xccl_available=False, is_gloo_available=True)


@case
def collectives_of_xpu_with_torch_2_1() -> str:
    return collectives("xpu", is_nccl_available=False, is_gloo_available=True)


@case
def collectives_of_a_mac() -> str:
    return collectives("mps", is_gloo_available=True)


@case
def collectives_of_the_cpu() -> str:
    return capabilities.collectives(CPU)


@case
def collectives_of_a_torch_without_the_package() -> str:
    with patch.object(distributed, "is_available", lambda: False):
        return capabilities.collectives(DEVICE)


@case
def ranks_beside_another_model() -> list[int]:
    names = ["Arc B580", "UHD 770", "Arc B580"]
    module = SimpleNamespace(device_count=lambda: 3, get_device_name=names.__getitem__)
    with patch.object(devices, "backend", lambda _device: module):
        return devices.alike(DEVICE)


# Compilers ----------------------------------------------------------------------------------------


@contextmanager
def machine(**variables: str) -> Iterator[None]:
    """Let only these variables name a compiler."""
    clean = {
        name: value for name, value in os.environ.items() if name not in ("CC", "CXX")
    }
    with patch.dict(os.environ, clean | variables, clear=True):
        yield


@contextmanager
def triton(*, header: bool, libraries: tuple[str, ...] = ()) -> Iterator[None]:
    """Let a Triton be installed whose launcher includes Level Zero's header."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "driver.py").write_text(f"#include <{compilers.LEVEL_ZERO}>")
        include = Path(folder, "include")
        if header:
            (include / "level_zero").mkdir(parents=True)
            (include / compilers.LEVEL_ZERO).write_text("typedef int ze_result_t;\n")
        driver = ModuleType("triton.backends.intel.driver")
        driver.__file__ = str(Path(folder, "driver.py"))
        driver.COMPILATION_HELPER = SimpleNamespace(  # type: ignore[attr-defined]
            include_dir=[str(include)], library_dir=[folder], libraries=list(libraries)
        )
        names = ("triton", "triton.backends", "triton.backends.intel")
        fakes = {name: ModuleType(name) for name in names} | {driver.__name__: driver}
        with patch.dict(sys.modules, fakes), machine():
            yield


@case
def here_is_a_compiler() -> bool:
    return bool(shutil.which("g++") and shutil.which("gcc"))


@case
def a_compiler_for_the_cpu() -> str:
    with machine():
        return compilers.for_inductor()


@case
def a_compiler_for_cuda() -> str:
    with machine():
        return compilers.for_triton_cuda()


@case
def no_compiler() -> list[str]:
    with machine(PATH="/nowhere"):
        return [compilers.for_inductor(), compilers.for_triton_cuda()]


@case
def a_compiler_that_does_not_exist() -> str:
    with machine(CXX="/nowhere/g++"):
        return compilers.for_inductor()


@case
def a_compiler_that_fails() -> str:
    with machine(CC="false"):
        return compilers.for_triton_cuda()


@case
def a_python_without_headers() -> str:
    with machine(), patch.object(compilers, "_PYTHON", ["/nowhere"]):
        return compilers.for_triton_cuda()


@case
def xpu_with_level_zero() -> str:
    with triton(header=True):
        return compilers.for_triton_xpu()


@case
def xpu_without_the_header() -> str:
    with triton(header=False):
        return compilers.for_triton_xpu()


@case
def xpu_without_the_loader() -> str:
    with triton(header=True, libraries=("ze_loader_that_is_not_here",)):
        return compilers.for_triton_xpu()


@case
def windows_prompts() -> list[str]:
    found = []
    for compiler, names in (
        (None, ()),
        ("cl", ()),
        ("cl", ("LIB",)),
        ("cl", ("LIB", "INCLUDE")),
    ):
        with patch.dict(os.environ, dict.fromkeys(names, "C:\\somewhere"), clear=True):
            found.append(compilers._windows(compiler))
    return found


@case
def windows_command_line() -> list[str]:
    cl = r"C:\Program Files\MSVC\cl.exe"
    return compilers._cl(cl, "a.cpp", ["I"], ["L"], ["ze_loader"])


@case
def triton_on_old_and_new_gpus() -> list[str]:
    found = []
    for capability in ((6, 1), (7, 0)):
        with (
            patch.object(devices, "kind", lambda _device: "cuda"),
            patch.object(
                torch.cuda, "get_device_capability", lambda _device, c=capability: c
            ),
        ):
            found.append(capabilities.triton(DEVICE))
    return found


# Devices ------------------------------------------------------------------------------------------


@case
def the_name_of_a_cpu_in_windows() -> list[str]:
    registry = ModuleType("winreg")
    registry.HKEY_LOCAL_MACHINE = 0  # type: ignore[attr-defined]
    registry.OpenKey = lambda *_args: tempfile.TemporaryDirectory()  # type: ignore[attr-defined]
    registry.QueryValueEx = lambda *_args: (  # type: ignore[attr-defined]
        "Intel(R) Core(TM) Ultra 7 155H ",
        1,
    )
    processor = patch.object(
        devices.platform, "processor", lambda: "Intel64 Family 6 Model 170"
    )
    with patch.object(sys, "platform", "win32"), processor:
        with patch.dict(sys.modules, {"winreg": registry}):
            named = devices._cpu_name()
        registry.OpenKey = raises_os_error  # type: ignore[attr-defined]
        with patch.dict(sys.modules, {"winreg": registry}):
            return [named, devices._cpu_name()]


def raises_os_error(*_args: object) -> None:
    raise OSError


@case
def far_limits() -> list[float]:
    found = []
    for kind in ("cpu", "cuda", "xpu"):
        with patch.object(devices, "kind", lambda _device, kind=kind: kind):
            found.append(test_rotary.far_limit(DEVICE))
    return found


@case
def pinning_in_torch_2_1() -> list[str | None]:
    """It takes CUDA for granted unless the device is named."""
    asked: list[str | None] = []

    def pin_memory(tensor: Any, device: str | None = None) -> Any:
        asked.append(device)
        if device is None:
            raise RuntimeError("Cannot initialize CUDA without ATen_cuda library")
        return tensor

    with patch.object(torch.Tensor, "pin_memory", pin_memory):
        test_transfer.pinned(1, DEVICE)
    return asked


@case
def numbers_of_devices() -> list[bool]:
    """What Accelerate makes of the number 0: with torch 2.1 it is cuda:0."""
    to = torch.Tensor.to

    def cuda(tensor: Any, device: Any) -> Any:
        if isinstance(device, int):
            raise AssertionError("Torch not compiled with CUDA enabled")  # noqa: TRY004 - as torch
        return to(tensor, device)

    old = SimpleNamespace(release=lambda _name: (0, 23))
    new = SimpleNamespace(release=lambda _name: (1, 15))
    takes = test_offload._takes_numbers
    with patch.object(torch.Tensor, "to", cuda):
        with_cuda = [takes(DEVICE, old), takes(DEVICE, new)]
    return [*with_cuda, takes(DEVICE, old), takes(CPU, new)]


if __name__ == "__main__":
    answers = {name: function() for name, function in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(answers), encoding="utf-8")
