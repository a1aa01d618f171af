"""Collectives: processes sum their tensors, on the CPU or each on its own device."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import distributed

from smoke.checks.test_group import LARGE, sum_at_size
from smoke.device import capabilities, devices
from smoke.engine import child_process
from smoke.engine.check import Numbers, check
from smoke.engine.finding import CheckFailed, fail


@check(
    "collective.sum",
    stands_for="NCCL, oneCCL or Gloo is missing or of another version",
    needs=(capabilities.collectives,),
    full=True,
)
def test_sum(device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """Two processes (one, where there is one device) all-reduce their tensors to the same sum."""
    if not distributed.is_available():
        fail(
            "backend-not-built",
            "this torch has no distributed package",
            [f"torch {torch.__version__}"],
        )
    # A second device of another model is none that works with the first.
    ranks = [device, device]
    if device.type != "cpu":
        numbers_alike = devices.alike(device)[:2]
        ranks = [torch.device(device.type, number) for number in numbers_alike]
    size = len(ranks)
    numbers.record("processes", size, "count")

    def rank(number: int) -> child_process.Answer:
        return child_process.call(
            "smoke.checks.test_collective:add_up",
            device=str(ranks[number]),
            rank=number,
            size=size,
            store=(tmp_path / "store").as_uri(),
        )

    numbers.step("all-reduce in fresh processes")
    with ThreadPoolExecutor(size) as pool:
        for answer in pool.map(rank, range(size)):
            _judge(answer, size)
    numbers.sample("all-reduce", answer.value[6:], "GB/s")


def add_up(device: str, rank: int, size: int, store: str) -> list[float]:
    """Run as one rank on its own device: contribute rank + 1, a few times and at size.

    Returns five sums, how many of the other numbers are wrong, and the speeds in GB/s.
    """
    place = torch.device(device)
    distributed.init_process_group(
        capabilities.backend(place), init_method=store, rank=rank, world_size=size
    )
    tensor = torch.full((5,), float(rank + 1), device=place)
    distributed.all_reduce(tensor)
    wrong = _other_collectives(place, rank, size)
    wrong_sums, seconds = sum_at_size(size, rank, place, period=1021, repeats=5)
    speeds = [4e-9 * LARGE / one for one in seconds]
    distributed.destroy_process_group()
    return [*tensor.cpu().tolist(), wrong + wrong_sums, *speeds]


def _other_collectives(device: torch.device, rank: int, size: int) -> int:
    """Return how many numbers are wrong after a gather, a maximum and a broadcast."""
    word = torch.full((1023,), float(rank), device=device)
    parts = [torch.zeros_like(word) for _ in range(size)]
    distributed.all_gather(parts, word)
    wrong = 0
    for number, part in enumerate(parts):
        wrong += int((part != number).sum())
    last = size - 1
    distributed.all_reduce(word, distributed.ReduceOp.MAX)
    wrong += int((word != last).sum())
    word.fill_(rank)
    distributed.broadcast(word, last)
    return wrong + int((word != last).sum())


def _judge(answer: child_process.Answer, size: int) -> None:
    if answer.finding:
        raise CheckFailed(answer.finding)
    *sums, wrong = answer.value[:6]
    right = size * (size + 1) / 2
    if wrong or sums != [right] * 5:
        fail(
            "wrong-numbers",
            f"the sum over {size} processes is {sums[0]}, not {right}; "
            f"{wrong:.0f} other numbers are wrong",
            [f"sums {sums}", f"right {right}"],
        )
