"""Transfer: data returns from the device bit for bit, at a plausible speed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from smoke import device as devices
from smoke.checks import check, on_gpu
from smoke.finding import fail

if TYPE_CHECKING:
    from smoke.checks import Numbers

TYPES = (
    *(torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool),
)


@check(
    "transfer.roundtrip", stands_for="tensors arrive damaged on the device", when=on_gpu, full=True
)
def test_roundtrip(device: torch.device, numbers: Numbers) -> None:
    """Tensors of every dtype, small or of megabytes, return unchanged, contiguous or not."""
    generator = torch.Generator().manual_seed(0)
    small, large = (
        torch.randint(120, size, generator=generator) for size in ((130, 70), (2053, 1031))
    )
    for dtype in TYPES:
        a, b = small.to(dtype), large.to(dtype)
        layouts = {"": a, "strided": a.t(), "large": b, "large strided": b[:, ::2]}
        for layout, tensor in layouts.items():
            numbers.step(f"{dtype} {layout}")
            if not torch.equal(tensor.to(device).cpu(), tensor):
                fail(
                    "transfer-corrupts",
                    f"a {layout} tensor of {dtype} returns changed",
                    cause="the copy engine, the driver or the link corrupts data",
                    remedy="look for link or memory errors in the system log",
                    evidence=[f"{dtype} {layout}", f"device {device}"],
                )
    numbers.record("types", len(TYPES), "count")


@check(
    "transfer.speed",
    stands_for="a card in a slow slot, or without resizable BAR",
    when=on_gpu,
    full=True,
)
def test_speed(device: torch.device, numbers: Numbers) -> None:
    """Copies between pinned memory and the device reach at least half a GiB/s."""
    host = _pinned(64 * 2**20, device)
    there = torch.empty_like(host, device=device)
    for name, target, source in (("to device", there, host), ("to host", host, there)):
        numbers.step(name)
        speeds = [_copy(target, source, device) for _ in range(5)]
        speed = numbers.sample(name, speeds[1:], "GiB/s")
        if speed < 0.5:
            fail(
                "slow",
                f"copies {name} run at {speed:.2f} GiB/s; any slot gives more than 0.5 GiB/s",
                cause="the link of the card runs at a fraction of its width or speed",
                remedy="reseat the card; check the width of the link and resizable BAR",
                evidence=[f"{each:.2f} GiB/s" for each in speeds],
                level="warning",
            )


def _pinned(size: int, device: torch.device) -> torch.Tensor:
    """Return pinned memory of the host for transfers to the device.

    torch 2.1 takes CUDA for granted where no device is named; later torch takes the accelerator,
    and warns about the argument.
    """
    memory = torch.zeros(size, dtype=torch.uint8)
    try:
        return memory.pin_memory()
    except (RuntimeError, AssertionError):  # "Cannot initialize CUDA without ATen_cuda library"
        return memory.pin_memory(device.type)


def _copy(target: torch.Tensor, source: torch.Tensor, device: torch.device) -> float:
    """Return the speed of one copy in GiB/s."""
    devices.synchronize(device)
    began = time.perf_counter()
    target.copy_(source, non_blocking=True)
    devices.synchronize(device)
    gibibytes: float = source.numel() / 2**30
    return gibibytes / (time.perf_counter() - began)
