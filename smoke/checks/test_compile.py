"""Compile: Inductor and its back end build a fused kernel with right results."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from smoke.device import capabilities, devices
from smoke.engine import child_process
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.files import scratch_folder
from smoke.engine.finding import CheckFailed, fail
from smoke.engine.journal import Journal
from smoke.reference import reference

TRITON = ("triton", "triton-xpu", "pytorch-triton-xpu", "triton-windows", "triton-rocm")


def can_compile(expect: Expect) -> str:
    """Apply where a back end is promised: Triton in the lock of a GPU; the CPU needs none."""
    if not expect.on_gpu or any(map(expect.locks, TRITON)):
        return ""
    return "needs Triton, which is not locked"


def mul_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Compute what torch_ipex::mul_add computes; Inductor fuses it into one kernel."""
    return a * b + 0.5 * c


def sums(x: torch.Tensor) -> torch.Tensor:
    """Compute what takes sums over rows and over columns."""
    return x.softmax(-1) + x.sum(0)


def half_type(device: torch.device) -> torch.dtype:
    """Return the half type that Inductor compiles for.

    Below compute capability 8.0 it skips graphs with bfloat16 (pytorch/pytorch#129288), and raises
    where the whole graph is asked for, since torch 2.12 (pytorch/pytorch#177809).
    """
    if devices.kind(device) != "cuda":
        return torch.bfloat16
    capability = torch.cuda.get_device_capability(device)
    return torch.float16 if capability < (8, 0) else torch.bfloat16


def _kernels() -> int:
    """Return how many kernels Inductor has generated in this process."""
    from torch._inductor import metrics

    return int(metrics.generated_kernel_count)


def _falls_back(symptom: str) -> None:
    evidence = []
    for name, value in sorted(os.environ.items()):
        if "TORCH" in name:
            evidence.append(f"{name}={value}")
    fail("compile-falls-back", symptom, evidence or ["no variable of torch is set"])


def compilation_for(_expect: Expect, device: torch.device) -> child_process.Call:
    """Return the call of `compile_both` for a device."""
    return "smoke.checks.test_compile:compile_both", {"device": str(device)}


@check(
    "compile.mul_add",
    stands_for="torch.compile fails: no C++ compiler, no Triton, or one of another version",
    when=can_compile,
    needs=(capabilities.triton, capabilities.compiler),
    full=True,
    beside=compilation_for,
)
def test_mul_add(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """A compiled multiply-add is one graph, without a fallback, and right."""
    function, arguments = compilation_for(expect, device)
    answer = child_process.call(function, timeout=300.0, **arguments)
    if answer.finding:
        raise CheckFailed(answer.finding)
    numbers.values = answer.value


def compile_both(device: str) -> dict[str, Any]:
    """Compile and run both functions; return what was measured."""
    from torch._dynamo import config

    if getattr(config, "disable", False):  # torch 2.12 refuses a full graph then
        _falls_back("torch.compile is switched off")
    with scratch_folder() as folder:
        numbers = Numbers(Journal(Path(folder, "journal.jsonl")))
        # An empty cache, so that the compiler has to run.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, "inductor"))
        os.environ["TRITON_CACHE_DIR"] = str(Path(folder, "triton"))
        _measure(torch.device(device), numbers)
    return numbers.values


def _measure(device: torch.device, numbers: Numbers) -> None:
    inputs = [reference.noise(33, 65, seed=seed) for seed in range(3)]
    began = time.monotonic()
    error = _error(mul_add, device, inputs)
    numbers.record("compile", time.monotonic() - began, "s")
    numbers.within("error", error, 1e-5)
    halves = inputs[0].to(half_type(device))
    # Two roundings of bfloat16, of a sum and of the result; an H200 comes to 4.6e-3.
    numbers.within("sums", _error(sums, device, [halves]), 8e-3)


def _error(
    function: Callable[..., Any], device: torch.device, inputs: list[torch.Tensor]
) -> float:
    """Return the error of a compiled function; fail where nothing was generated for it."""
    before = _kernels()
    compiled = torch.compile(function, fullgraph=True)
    result = compiled(*[x.to(device) for x in inputs])
    if _kernels() == before:  # the graph was run as it is
        _falls_back("torch.compile returned without compiling")
    right = function(*[x.double() for x in inputs])
    return reference.error(result, right)
