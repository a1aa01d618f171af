"""Collectives: processes sum their tensors, on the CPU or each on its own device."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import distributed

from smoke.device import capabilities, devices
from smoke.engine import child_process
from smoke.engine.check import Numbers, check
from smoke.engine.finding import CheckFailed, fail

LARGE = 2**22  # numbers of four bytes: what a layer's gradients take


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
    ranks = (
        [device] * 2
        if device.type == "cpu"
        else [torch.device(device.type, number) for number in devices.alike(device)[:2]]
    )
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

    Returns five sums, how many of the large tensor's are wrong, and its speeds in GB/s.
    """
    own = torch.device(device)
    distributed.init_process_group(
        capabilities.backend(own), init_method=store, rank=rank, world_size=size
    )
    tensor = torch.full((5,), float(rank + 1), device=own)
    distributed.all_reduce(tensor)
    parts, word = (
        [torch.zeros_like(tensor) for _ in range(size)],
        torch.full_like(tensor, rank),
    )
    distributed.all_gather(parts, word)
    wrong = sum(int((part != number).sum()) for number, part in enumerate(parts))
    distributed.all_reduce(word.add_(1), distributed.ReduceOp.MAX)
    wrong += int((word != size).sum())
    distributed.broadcast(word.fill_(rank), size - 1)
    wrong += int((word != size - 1).sum()) + sum(
        _wrong(own, rank, size, n) for n in (1, 1023)
    )
    distributed.all_reduce(whole := torch.full((5,), 2**40 + 1 + rank, device=own))
    wrong += int((whole != size * 2**40 + size * (size + 1) // 2).sum())
    ramp = (
        torch.arange(LARGE, device=own).remainder(1021).float()
    )  # whose sums are exact
    seconds = []
    for _ in range(5):
        large = ramp * (rank + 1)
        devices.synchronize(own)
        began = time.perf_counter()
        distributed.all_reduce(large)
        devices.synchronize(own)
        seconds.append(time.perf_counter() - began)
    wrong += int((large != ramp * (size * (size + 1) / 2)).sum())
    distributed.destroy_process_group()
    return [
        *map(float, tensor.cpu()),
        wrong,
        *(large.nbytes / 1e9 / each for each in seconds),
    ]


def _wrong(own: torch.device, rank: int, size: int, length: int) -> int:
    """Return how many numbers are wrong after collectives of this length."""
    ramp = torch.arange(length, device=own) % 61 + 1.0
    given = torch.stack([ramp + number for number in range(size)])
    sums = {
        "SUM": given.sum(0),
        "AVG": given.mean(0),
        "MAX": given[-1],
        "MIN": ramp,
        "PRODUCT": given.prod(0),
    }
    wrong = 0
    for name, right in sums.items():
        for one in (False, True):
            found, by = given[rank].clone(), getattr(distributed.ReduceOp, name)
            try:
                distributed.reduce(found, 0, by) if one else distributed.all_reduce(
                    found, by
                )
            except Exception:
                if name != "AVG":  # which not every backend has, as Gloo
                    raise
                continue
            wrong += int((found != right).sum()) if not (one and rank) else 0
    # Dense, in another layout: of those, NCCL and XCCL take channels last alone.
    turned = torch.stack([ramp, given[rank]]).view(1, 2, length, 1)
    distributed.all_reduce(
        turned := turned.contiguous(memory_format=torch.channels_last)
    )
    wrong += int(
        (turned.view(1, 2, -1) != torch.stack([size * ramp, sums["SUM"]])).sum()
    )
    pieces = [torch.zeros_like(ramp) for _ in range(size)]
    distributed.gather(given[rank].clone(), None if rank else pieces)
    wrong += 0 if rank else int((torch.stack(pieces) != given).sum())
    distributed.scatter(pieces[0], None if rank else [*given.clone()])
    return wrong + int((pieces[0] != given[rank]).sum())


def _judge(answer: child_process.Answer, size: int) -> None:
    if answer.finding:
        raise CheckFailed(answer.finding)
    right = [size * (size + 1) / 2] * 5 + [0]
    if answer.value[:6] != right:
        few, many = (
            f"{answer.value[0]}, not {right[0]}",
            f"{answer.value[5]} of {LARGE}",
        )
        symptom = f"the sum over {size} processes is {few}; {many} others are wrong"
        fail("wrong-numbers", symptom, [f"found {answer.value[:6]}", f"right {right}"])
