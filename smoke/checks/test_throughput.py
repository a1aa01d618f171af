"""Throughput: training reaches the promised speed, and runs on the device."""

import time
from collections.abc import Callable

import torch

from smoke.device import devices
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.finding import fail
from smoke.reference.models import PlateReader, plates

WARMUP, ROUNDS, FEWEST = 1, 15, 5
ON_CPU = 3  # rounds of a CPU target: its speed is shown and promises nothing
SECONDS = 20.0  # a busy host was seen to take four seconds for a step; FEWEST rounds suffice there


@check(
    "throughput.training",
    stands_for="LPRNet on an Arc A770 no faster than on the CPU",
)
def test_training(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Training on the device is faster than on the CPU by the factor that the target promises."""
    cpu = torch.device("cpu")
    steps = {device: training_step(device, numbers)}
    if device != cpu:
        steps[cpu] = training_step(cpu, numbers)
    rounds = taken_in_turns(steps, ROUNDS if expect.on_gpu else ON_CPU)[WARMUP:]
    rates = [rates_of[device] for rates_of in rounds]
    speed = numbers.sample("throughput", rates, "images/s")
    if not expect.on_gpu:
        return
    rates = [rates_of[cpu] for rates_of in rounds]
    on_cpu = numbers.sample("on the CPU", rates, "images/s")
    speedup = speed / on_cpu
    numbers.record("speedup", speedup, "1")
    floor = expect.speedup_over_cpu
    if floor is not None and speed < floor * on_cpu:
        # A warning: an integrated GPU, or a card beside a fast CPU, is not broken.
        fail(
            "slow",
            f"{speedup:.2f} times the CPU's speed, the target promises {floor} times",
            [f"{speed:.0f} images/s on {device}", f"{on_cpu:.0f} images/s on the CPU"],
        )


def taken_in_turns(
    steps: dict[torch.device, Callable[[], float]], count: int
) -> list[dict[torch.device, float]]:
    """Return the rates of some steps: a change of load or clock meets each of them."""
    until = time.monotonic() + SECONDS
    rounds: list[dict[torch.device, float]] = []
    while len(rounds) < WARMUP + count:
        if len(rounds) >= WARMUP + FEWEST and time.monotonic() > until:
            break
        rounds.append({device: step() for device, step in steps.items()})
    return rounds


def training_step(device: torch.device, numbers: Numbers) -> Callable[[], float]:
    """Return a function that trains one step and returns images per second."""
    model = PlateReader().to(device)
    # A CPU's speed per image hardly depends on the batch; a GPU needs one that fills it.
    batch = 4 if device.type == "cpu" else 64
    images, text = (part.to(device) for part in plates(batch))
    placed(device, images, *model.parameters())
    update = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> float:
        numbers.step(f"train on {device}")
        devices.synchronize(device)
        started = time.perf_counter()
        update.zero_grad()
        torch.nn.functional.cross_entropy(model(images), text).backward()
        update.step()
        devices.synchronize(device)
        return batch / (time.perf_counter() - started)

    return step


def placed(device: torch.device, *tensors: torch.Tensor) -> None:
    """Fail the check unless every tensor is on the device that is measured."""
    away = [tensor for tensor in tensors if tensor.device.type != device.type]
    if away:
        fail(
            "tensors-elsewhere",
            f"{len(away)} of {len(tensors)} tensors are on {away[0].device}, not {device}",
            [str(tensor.device) for tensor in away[:3]],
            cause="moving model or inputs to the device had no effect",
            remedy="look at what replaces torch's .to(), and at options parsed with type=bool",
        )
