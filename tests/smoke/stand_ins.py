"""Runs inside an environment: what the capabilities say of machines that are not this one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import pretend
import torch
from torch import distributed

from smoke.device import capabilities, compilers, devices

DEVICE = pretend.DEVICE
NO_FP64 = "Required aspect fp64 is not supported on the device"
# Case -> the answer and words of the right one, "" where nothing is lacking.
Answers = dict[str, tuple[str, str]]


# Float64 ------------------------------------------------------------------------------------------


def float64(text: str = "", **properties: object) -> str:
    """Return the answer for a device with these properties, whose arithmetic raises a text."""

    def refuse(result, *_args: object):
        if text:
            raise RuntimeError(text)
        return result

    said = SimpleNamespace(total_memory=1, **properties)
    with (
        patch.object(pretend.Backend, "get_device_properties", lambda *_args: said),
        pretend.spoiled("aten::reciprocal", refuse),
    ):
        try:
            return capabilities.float64(DEVICE)
        except RuntimeError as error:
            return f"raised {error}"


def answers_of_float64() -> Answers:
    """An absence that is documented excuses; a promise or another error does not."""
    ipex = "FP64 data type is unsupported on current platform."
    with patch.dict(pretend.SAYS, fp64="never"):
        on_a_mac = float64(has_fp64=False)
    lacks = "the device has no float64: "
    return {
        "SYCL": (float64(NO_FP64, has_fp64=False), f"{lacks}Required aspect fp64"),
        "IPEX 2.1.10": (float64(ipex, support_fp64=False), f"{lacks}FP64 data type"),
        "a Mac": (on_a_mac, f"{lacks}Cannot convert a MPS"),
        "emulated": (float64(has_fp64=False), ""),
        # The property promises it, so the check is required, and fails.
        "promised": (float64(NO_FP64, has_fp64=True), ""),
        "another error": (float64("DEVICE_LOST"), "raised DEVICE_LOST"),
    }


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


def answers_of_collectives() -> Answers:
    """What torch is built without is no fault of a device."""
    lacks = "this torch is built without a collective back end for "
    with patch.object(distributed, "is_available", lambda: False):
        without = capabilities.collectives(DEVICE)
    gloo = {"is_gloo_available": True}
    return {
        "Linux": (collectives("cuda", is_nccl_available=True, **gloo), ""),
        "Windows": (
            collectives("cuda", is_nccl_available=False, **gloo),
            f"{lacks}cuda",
        ),
        "torch 2.1": (
            collectives("xpu", is_nccl_available=False, **gloo),
            f"{lacks}xpu",
        ),
        "Metal": (collectives("mps", **gloo), f"{lacks}mps"),
        "no package": (without, ""),
    }


# Compilers ----------------------------------------------------------------------------------------


@contextmanager
def machine(**variables: str):
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


def answers_of_compilers() -> Answers:
    """What torch.compile lacks on a machine is named."""
    with machine(PATH="/nowhere"):
        none = compilers.for_inductor()
    with machine(CXX="/nowhere/g++"):
        absent = compilers.for_inductor()
    with machine(CC="false"):
        failing = compilers.for_triton_cuda()
    with patch.dict(os.environ, clear=True):
        windows = compilers._windows("cl")
    old = patch.object(torch.cuda, "get_device_capability", lambda _device: (6, 1))
    with patch.object(devices, "kind", lambda _device: "cuda"), old:
        triton = capabilities.triton(DEVICE)
    line = compilers._cl(
        r"C:\Program Files\MSVC\cl.exe", "a.cpp", ["I"], ["L"], ["ze_loader"]
    )
    answers = {
        "line of cl": (
            "|".join(line),
            r"C:\Program Files\MSVC\cl.exe|/nologo|a.cpp|/LD|/II|/link|/LIBPATH:L|ze_loader.lib",
        ),
        "none": (none, "no C++ compiler"),
        "absent": (absent, "the compiler does not run: "),
        "failing": (failing, "false fails: "),
        "cl": (windows, "INCLUDE and LIB not set: start from a Developer"),
        "an old GPU": (triton, "Triton needs compute capability 7.0"),
    }
    if shutil.which("g++") and shutil.which("gcc"):
        with machine():
            answers["here"] = (compilers.for_inductor(), "")
        answers["Level Zero"] = (triton_for_xpu(header=True), "")
        answers["no header"] = (triton_for_xpu(header=False), "level_zero/ze_api.h")
    return answers


# Devices ------------------------------------------------------------------------------------------


def answers_of_devices() -> Answers:
    """Only devices of one model sum together."""
    names = ["Arc B580", "UHD 770", "Arc B580"]
    module = SimpleNamespace(device_count=lambda: 3, get_device_name=names.__getitem__)
    with patch.object(devices, "backend", lambda _device: module):
        ranks = str(devices.alike(DEVICE))
        with patch.dict(os.environ, SMOKE_ALONE=""):
            return {
                "ranks": (ranks, "[0, 2]"),
                "beside others": (str(devices.alike(DEVICE)), "[0]"),
            }


def wrong() -> dict[str, tuple[str, str]]:
    """Return what is answered otherwise than expected."""
    answers = answers_of_float64() | answers_of_collectives()
    answers |= answers_of_compilers() | answers_of_devices()
    return {
        name: (answer, words)
        for name, (answer, words) in answers.items()
        if words not in answer or bool(answer) != bool(words)
    }
