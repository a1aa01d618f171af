"""What the pretend device refuses, one function for each trait; run inside an environment.

Each tests the device, not the suite: it refuses what real devices are documented to refuse.
`profiles.toml` has the sources.
"""

from __future__ import annotations

import os
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pretend
import torch
import worlds
from torch import distributed

from smoke.device import devices
from smoke.engine import child_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOST = "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"
PLAIN: dict[str, Any] = {
    "says": {},
    "accelerator": "xpu",
    "release": [2, 9],
    "nvml": None,
    "collectives": [],
    "compiler": True,
    "compile_error": "",
    "arch_list": [],
    "nodes": [],
    "import_prints": [],
    "distributions": [],
    "version_file": "",
    "expect": {"packages": {}, "rotary": []},
}


def judge() -> dict[str, str | None]:
    """Return the traceback of each trait that is not played, None for the others."""
    return {
        name: _judged(function)
        for name, function in globals().items()
        if name.startswith("trait_")
    }


def _judged(function: Callable[[], None]) -> str | None:
    try:
        function()
    except Exception:  # noqa: BLE001 - the test shows it
        return traceback.format_exc()
    return None


@contextmanager
def device(world: dict[str, Any] | None = None, **says: Any) -> Iterator[torch.device]:
    """Play a device that says this."""
    with worlds.play({**PLAIN, **(world or {}), "says": says}):
        yield pretend.DEVICE


@contextmanager
def refused(text: str, kind: type[Exception] = RuntimeError) -> Iterator[None]:
    """Fail unless exactly this error comes."""
    try:
        yield
    except kind as error:
        if text not in str(error):
            raise
    else:
        raise AssertionError(f"nothing was refused with {text!r}")


def trait_float64_arithmetic_is_refused() -> None:
    for fp64 in ("conversions", "none"):
        with device(fp64=fp64) as there:
            wide = torch.ones(4, dtype=torch.float64).to(there)
            for compute in (
                torch.sum,
                torch.reciprocal,
                lambda x: x * 2,
                lambda x: x @ x,
            ):
                with refused(pretend.NO_FP64):
                    compute(wide)
            with refused(pretend.NO_FP64):
                torch.ones(4, dtype=torch.float64, device=there)
            with refused(pretend.NO_FP64):
                torch.ones(4, device=there).sum(dtype=torch.float64)


def trait_without_any_float64_a_cast_on_the_device_is_refused() -> None:
    with device(fp64="none") as there:
        with refused(pretend.NO_FP64):
            torch.ones(4, device=there).double()
        with refused(pretend.NO_FP64):
            torch.ones(4, dtype=torch.float64).to(there).float()


def trait_to_a_mac_no_float64_comes_at_all() -> None:
    with device(fp64="never") as there:
        wide = torch.ones(4, dtype=torch.float64)
        for move in (
            lambda: wide.to(there),
            lambda: torch.ones(4, device=there).double(),
            lambda: torch.empty(4, dtype=torch.float64, device=there),
            lambda: torch.ones(4, device=there).sum(dtype=torch.float64),
        ):
            with refused(pretend.NEVER_FP64, TypeError):
                move()
        assert torch.ones(4, device=there).cpu().double().sum().item() == 4


def trait_a_mac_answers_by_functions_of_its_own() -> None:
    with device(
        {"accelerator": "mps"}, name="Apple M4", driver="26.7", memory=2**30
    ) as there:
        told = devices.facts(there)
        assert (told["name"], told["memory"], told["driver"]) == (
            "Apple M4",
            2**30,
            "26.7",
        )
        assert devices.has_float64(there) is False
        before = devices.backend(there).memory_allocated()
        kept = torch.empty(2**26, dtype=torch.uint8, device=there)
        assert devices.backend(there).memory_allocated() - before == kept.nbytes


def trait_the_scaler_needs_float64() -> None:
    with device(fp64="conversions") as there, refused(pretend.NO_FP64):
        scaler = torch.amp.GradScaler(there.type)
        weight = torch.nn.Parameter(torch.ones(3, device=there))
        update = torch.optim.SGD([weight], lr=0.1)
        scaler.scale(weight.sum()).backward()
        scaler.step(update)


def trait_properties_are_those_of_the_release() -> None:
    with device(fields=["name", "dev_type", "support_fp64", "total_memory"]) as there:
        properties = torch.xpu.get_device_properties(there)
        assert not hasattr(properties, "driver_version")
        assert not hasattr(properties, "device_id")
        assert properties.support_fp64
        assert devices.facts(there)["driver"] is None


def trait_more_than_all_memory_is_refused() -> None:
    with device(memory=2**28) as there:
        half = torch.empty(2**27, dtype=torch.uint8, device=there)
        with refused("XPU out of memory", torch.OutOfMemoryError):
            torch.empty(2**28, dtype=torch.uint8, device=there)
        with refused("XPU out of memory", torch.OutOfMemoryError):
            torch.empty(2**27 + 1, dtype=torch.uint8).to(there)
        del half
        assert torch.empty(2**28, dtype=torch.uint8, device=there).device == there


def trait_ipex_refuses_a_tensor_above_its_limit() -> None:
    with device(largest=2**20, over_largest="block size larger than 4GB") as there:
        assert torch.empty(2**20, dtype=torch.uint8, device=there).numel() == 2**20
        with refused("larger than 4GB"):
            torch.empty(2**20 + 1, dtype=torch.uint8, device=there)


def trait_free_memory_can_be_unknown() -> None:
    with device(free_memory="raises"), refused("doesn't support querying"):
        torch.xpu.mem_get_info()


def trait_free_memory_can_be_stale() -> None:
    for way, changes in (("stale", False), ("works", True)):
        with device(free_memory=way) as there:
            before = torch.xpu.mem_get_info()
            kept = torch.empty(2**20, device=there)
            assert (torch.xpu.mem_get_info() != before) is changes
            del kept


def trait_errors_surface_when_the_device_is_awaited() -> None:
    with device() as there:
        ones = torch.ones(4, device=there)
        pretend.QUEUE.fail(LOST, pretend.AFTER_LOST)
        queued = ones + ones  # is only queued
        with refused(LOST):
            torch.xpu.synchronize()
        for later in (queued.cpu, lambda: ones + ones, torch.xpu.synchronize):
            with refused(pretend.AFTER_LOST):
                later()
        with refused(pretend.AFTER_LOST):
            torch.empty(1, device=there)


def trait_the_first_kernel_is_slow_and_prints() -> None:
    read, write = os.pipe()
    kept = os.dup(2)
    os.dup2(write, 2)
    waited: list[float] = []
    try:
        with (
            device(first_kernel=120.0, prints=["a line"]),
            patch.object(pretend, "compute", waited.append),
        ):
            for _ in range(3):
                torch.ones(4, device=pretend.DEVICE)
    finally:
        os.dup2(kept, 2)
    assert waited == [120.0], waited
    assert os.read(read, 99) == b"a line\n"


def trait_a_second_device_computes() -> None:
    with device(others=[{"name": "second"}]):
        second = torch.ones(2, 2, device="pretend:1")
        assert (second @ second).device.index == 1
        assert torch.xpu.get_device_name(1) == "second"
        assert torch.xpu.device_count() == 2
        with refused("at least two devices"):
            second @ torch.ones(2, 2, device="pretend:0")
        with refused("invalid device ordinal"):
            torch.ones(2, device="pretend:2")


def trait_a_busy_device_is_available_and_refuses() -> None:
    busy = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    with device({"accelerator": "cuda"}, refuses=busy, capability="9.0") as there:
        assert torch.cuda.is_available()
        with refused("busy or unavailable"):
            torch.ones(4, device=there)


def trait_a_collective_that_is_not_built_is_refused() -> None:
    for backend in ("nccl", "xccl"):
        with device(), refused(f"doesn't have {backend.upper()} built in"):
            distributed.init_process_group(
                backend, init_method="file:///nowhere", rank=0
            )


def trait_without_a_compiler_nothing_compiles() -> None:
    import shutil

    text = "Compiler: cl is not found."
    with device({"compiler": False, "compile_error": text}) as there:
        assert shutil.which("g++") is None
        assert shutil.which("cl") is None
        with refused(text):
            torch.compile(torch.sum)(torch.ones(4, device=there))


def trait_torch_2_1_pins_for_cuda_unless_told() -> None:
    with device({"release": [2, 1]}):
        with refused("CUDA"):
            torch.ones(4).pin_memory()
        assert torch.ones(4).pin_memory("xpu").sum() == 4


def trait_torch_2_1_takes_a_number_for_cuda() -> None:
    with device({"release": [2, 1]}):
        with refused("CUDA", AssertionError):
            torch.ones(4).to(0)
        assert torch.ones(4).to("pretend:0").device == pretend.DEVICE


def trait_a_fresh_process_has_launched_nothing() -> None:
    with device(prints=["a line"]) as there:
        torch.ones(4, device=there)
        answer = child_process.call("traits:compute")
        assert (answer.value, answer.output) == (4.0, "a line\n"), answer


def compute() -> float:
    """Run in a fresh process of the world."""
    return float(torch.ones(4, device=pretend.DEVICE).sum().item())
