"""Collectives: processes sum their tensors, on the CPU or each on its own device."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import distributed

from smoke import child_process
from smoke import device as devices
from smoke.checks import check
from smoke.finding import CheckFailed, fail

if TYPE_CHECKING:
    from pathlib import Path

    from smoke.checks import Numbers
    from smoke.expect import Expect

BACKENDS = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}


@check(
    "collective.sum", stands_for="NCCL, oneCCL or Gloo is missing or of another version", full=True
)
def test_sum(expect: Expect, device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """Two processes (one, where there is one device) all-reduce their tensors to the same sum."""
    if not distributed.is_available():
        fail(
            "backend-not-built",
            "this torch has no distributed package",
            cause="torch was built without it",
            remedy="build the environment again from its lock",
            evidence=[f"torch {torch.__version__}"],
        )
    module = devices.backend(device)
    size = 2 if module is None else min(2, module.device_count())
    numbers.record("processes", size, "count")

    def rank(number: int) -> child_process.Answer:
        return child_process.call(
            "smoke.test_collective:add_up",
            accelerator=expect.accelerator,
            rank=number,
            size=size,
            store=(tmp_path / "store").as_uri(),
        )

    numbers.step("all-reduce in fresh processes")
    with ThreadPoolExecutor(size) as pool:
        for answer in pool.map(rank, range(size)):
            _judge(answer, size)


def add_up(accelerator: str, rank: int, size: int, store: str) -> list[float]:
    """Run as one rank: contribute rank + 1, return the sum over all ranks."""
    device = torch.device("cpu") if accelerator == "cpu" else torch.device(accelerator, rank)
    distributed.init_process_group(
        BACKENDS[accelerator], init_method=store, rank=rank, world_size=size
    )
    tensor = torch.full((5,), float(rank + 1), device=device)
    distributed.all_reduce(tensor)
    distributed.destroy_process_group()
    return [float(each) for each in tensor.cpu()]


def _judge(answer: child_process.Answer, size: int) -> None:
    if answer.finding:
        raise CheckFailed(answer.finding)
    right = [size * (size + 1) / 2] * 5
    if answer.value != right:
        fail(
            "wrong-numbers",
            f"the sum over {size} processes is {answer.value[0]}, not {right[0]}",
            cause="the collective library does not sum the tensors of all processes",
            remedy="build the environment again from its lock",
            evidence=[f"found {answer.value}", f"right {right}"],
        )
