"""Throughput: training reaches the promised speed, and runs on the device."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from smoke import device as devices
from smoke.checks import check
from smoke.finding import fail
from smoke.models import PlateReader, plates, seeded

if TYPE_CHECKING:
    from smoke.checks import Numbers
    from smoke.expect import Expect

WARMUP, STEPS = 1, 5


@check("throughput.training", stands_for="LPRNet on an Arc A770 no faster than on the CPU")
def test_training(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Training on the device is faster than on the CPU by the factor that the target promises."""
    speed = numbers.sample("throughput", rates(device, numbers), "images/s")
    if not expect.on_gpu:
        return
    on_cpu = numbers.sample("on the CPU", rates(torch.device("cpu"), numbers), "images/s")
    numbers.record("speedup", speed / on_cpu, "1")
    floor = expect.speedup_over_cpu
    if floor is not None and speed < floor * on_cpu:
        fail(
            "slow",
            f"{speed / on_cpu:.2f} times the CPU's speed, the target promises {floor} times",
            cause="the device is throttled or shared, its driver is slow, or work runs on the CPU",
            remedy="watch load and clock of the device while it trains; compare the last report",
            evidence=[f"{speed:.0f} images/s on {device}", f"{on_cpu:.0f} images/s on the CPU"],
        )


def rates(device: torch.device, numbers: Numbers) -> list[float]:
    """Return images per second of each measured training step."""
    numbers.step(f"train on {device}")
    model = seeded(PlateReader).to(device)
    # A CPU's speed per image hardly depends on the batch; a GPU needs one that fills it.
    batch = 8 if device.type == "cpu" else 64
    images, text = (part.to(device) for part in plates(batch))
    _placed(device, images, *model.parameters())
    update = torch.optim.SGD(model.parameters(), lr=0.01)
    seconds = []
    for _ in range(WARMUP + STEPS):
        devices.synchronize(device)
        began = time.perf_counter()
        update.zero_grad()
        torch.nn.functional.cross_entropy(model(images), text).backward()
        update.step()
        devices.synchronize(device)
        seconds.append(time.perf_counter() - began)
    return [batch / each for each in seconds[WARMUP:]]


def _placed(device: torch.device, *tensors: torch.Tensor) -> None:
    """Fail the check unless every tensor is on the device that is measured."""
    away = [tensor for tensor in tensors if tensor.device.type != device.type]
    if away:
        fail(
            "tensors-elsewhere",
            f"{len(away)} of {len(tensors)} tensors are on {away[0].device}, not {device}",
            cause="moving model or inputs to the device had no effect",
            remedy="look at what replaces torch's .to(), and at options parsed with type=bool",
            evidence=[str(tensor.device) for tensor in away[:3]],
        )
