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
from smoke.device import capabilities, compilers, devices  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEVICE = pretend.DEVICE
NO_FP64 = "Required aspect fp64 is not supported on the device"
CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register a function as one case."""
    CASES[function.__name__] = function
    return function


# Float64 ------------------------------------------------------------------------------------------


def float64(text: str = "", **properties: object) -> str:
    """Return the answer for a device with these properties, whose arithmetic raises a text."""

    def refuse(result: Any, *_args: object) -> Any:
        if text:
            raise RuntimeError(text)
        return result

    said = SimpleNamespace(total_memory=1, **properties)
    with (
        patch.object(pretend.Backend, "get_device_properties", lambda *_args: said),
        pretend.spoiled("aten::reciprocal", refuse),
    ):
        return capabilities.float64(DEVICE)


@case
def float64_is_refused_by_sycl() -> str:
    return float64(NO_FP64, has_fp64=False)


@case
def float64_is_refused_by_ipex_2_1_10() -> str:
    return float64(
        "FP64 data type is unsupported on current platform.", support_fp64=False
    )


@case
def float64_does_not_come_to_a_mac() -> str:
    with patch.dict(pretend.SAYS, fp64="never"):
        return float64(has_fp64=False)


@case
def float64_is_emulated() -> str:
    return float64(has_fp64=False)


@case
def float64_is_promised_and_refused() -> str:
    return float64(NO_FP64, has_fp64=True)


@case
def float64_meets_another_error() -> str:
    try:
        return float64("UR_RESULT_ERROR_DEVICE_LOST")
    except RuntimeError as error:
        return f"raised {error}"


# Collectives --------------------------------------------------------------------------------------


def collectives(kind: str, **functions: bool) -> str:
    """Return what the capability says of a torch with these functions, and no others."""
    fake = SimpleNamespace(is_available=lambda: True)
    for name, answer in functions.items():
        setattr(fake, name, lambda answer=answer: answer)
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
def collectives_of_xpu_with_torch_2_1() -> str:
    return collectives("xpu", is_nccl_available=False, is_gloo_available=True)


@case
def collectives_of_a_mac() -> str:
    return collectives("mps", is_gloo_available=True)


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
    with patch.dict(os.environ):
        os.environ.pop("CC", None)
        os.environ.pop("CXX", None)
        os.environ.update(variables)
        yield


def triton_for_xpu(*, header: bool) -> str:
    """Return the answer with a Triton whose launcher includes Level Zero's header."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "driver.py").write_text(f"#include <{compilers.LEVEL_ZERO}>")
        include = Path(folder, "include")
        if header:
            (include / "level_zero").mkdir(parents=True)
            (include / compilers.LEVEL_ZERO).write_text("typedef int ze_result_t;\n")
        driver = ModuleType("triton.backends.intel.driver")
        driver.__file__ = str(Path(folder, "driver.py"))
        driver.COMPILATION_HELPER = SimpleNamespace(  # type: ignore[attr-defined]
            include_dir=[str(include)], library_dir=[folder], libraries=[]
        )
        names = ("triton", "triton.backends", "triton.backends.intel")
        fakes = {name: ModuleType(name) for name in names} | {driver.__name__: driver}
        with patch.dict(sys.modules, fakes), machine():
            return compilers.for_triton_xpu()


@case
def here_is_a_compiler() -> bool:
    return bool(shutil.which("g++") and shutil.which("gcc"))


@case
def a_compiler_for_the_cpu() -> str:
    with machine():
        return compilers.for_inductor()


@case
def no_compiler() -> str:
    with machine(PATH="/nowhere"):
        return compilers.for_inductor()


@case
def a_compiler_that_does_not_exist() -> str:
    with machine(CXX="/nowhere/g++"):
        return compilers.for_inductor()


@case
def a_compiler_that_fails() -> str:
    with machine(CC="false"):
        return compilers.for_triton_cuda()


@case
def xpu_with_level_zero() -> str:
    return triton_for_xpu(header=True)


@case
def xpu_without_the_header() -> str:
    return triton_for_xpu(header=False)


@case
def cl_without_a_developer_prompt() -> str:
    with patch.dict(os.environ, clear=True):
        return compilers._windows("cl")


@case
def windows_command_line() -> list[str]:
    cl = r"C:\Program Files\MSVC\cl.exe"
    return compilers._cl(cl, "a.cpp", ["I"], ["L"], ["ze_loader"])


@case
def triton_on_an_old_gpu() -> str:
    with (
        patch.object(devices, "kind", lambda _device: "cuda"),
        patch.object(torch.cuda, "get_device_capability", lambda _device: (6, 1)),
    ):
        return capabilities.triton(DEVICE)


# Devices ------------------------------------------------------------------------------------------


@case
def far_limit_of_xpu() -> float:
    with patch.object(devices, "kind", lambda _device: "xpu"):
        return test_rotary.far_limit(DEVICE)


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

    def cuda(_tensor: Any, _device: Any) -> Any:
        raise AssertionError("Torch not compiled with CUDA enabled")

    old = SimpleNamespace(release=lambda _name: (0, 23))
    new = SimpleNamespace(release=lambda _name: (1, 15))
    with patch.object(torch.Tensor, "to", cuda):
        return [test_offload._takes_numbers(DEVICE, each) for each in (old, new)]


if __name__ == "__main__":
    answers = {name: function() for name, function in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(answers), encoding="utf-8")
