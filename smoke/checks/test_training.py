"""Training as people do it: gradient checkpointing, loaders with workers and pinned memory."""

import random
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from smoke.device import devices
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.reference import precision, reference


@check(
    "training.checkpointing",
    stands_for="a model learns worse with it",
    full=True,
)
def test_checkpointing(device: torch.device, numbers: Numbers) -> None:
    """Recomputed activations give the gradients of kept ones, with the same dropout."""
    torch.manual_seed(0)
    layers = (
        nn.Linear(64, 512),
        nn.GELU(),
        nn.Dropout(0.5),
        nn.Linear(512, 64),
        nn.Dropout(0.5),
    )
    block, found = nn.Sequential(*layers).to(device), {}
    tensors = [
        reference.noise(600, 64).to(device).requires_grad_(),
        *block.parameters(),
    ]
    for name, how in (("kept", None), ("reentrant", True), ("hooks", False)):
        numbers.step(name)
        torch.manual_seed(7)
        for _ in range(2):  # with two masks
            for each in tensors:
                each.grad = None
            run = (
                block if how is None else partial(checkpoint, block, use_reentrant=how)
            )
            with precision.recorded(device, numbers):
                run(tensors[0]).square().sum().backward()
        found[name] = torch.cat([each.grad.cpu().flatten() for each in tensors])
    right = found.pop("kept").double()
    norm = float(nn.utils.clip_grad_norm_(tensors, 0.5)) / float(right.norm())
    clipped = torch.cat([each.grad.cpu().flatten() for each in tensors])
    numbers.within(
        "clipped", reference.error(clipped, right * 0.5 / right.norm()), 1e-5
    )
    numbers.within("norm of the gradients", abs(norm - 1), 1e-5)
    for name, gradients in found.items():
        numbers.within(name, reference.error(gradients, right), 1e-5)


class Drawing(TensorDataset):  # type: ignore[misc]
    """Samples with random numbers each, as augmentations draw them in a worker."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        """Return the tensors of a sample, and its draws: of torch, of Python, of NumPy."""
        draws = [int(torch.randint(2**62, ())), random.getrandbits(62)]
        with suppress(ImportError):  # torch does not require it
            numpy = import_module("numpy")
            draws.append(int(numpy.random.randint(2**62, dtype=numpy.int64)))
        return (*super().__getitem__(index), torch.tensor(draws))


@check(
    "training.loader",
    stands_for="workers repeat or damage batches",
    full=True,
)
def test_loader(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Two workers and pinned memory bring each sample once an epoch, in the order of no worker."""
    pinned: dict[str, Any] = {"pin_memory": devices.kind(device) not in ("cpu", "mps")}
    # Older torch takes CUDA for granted; later it warns.
    if expect.release("torch") < (2, 6) and devices.kind(device) == "xpu":
        pinned["pin_memory_device"] = device.type
    count = torch.arange(48)
    samples = Drawing(count[:, None].expand(48, 12288).float(), count)
    order, twin = (
        RandomSampler(samples, generator=torch.Generator().manual_seed(0))
        for _ in range(2)
    )
    found, draws = _loaded(samples, device, sampler=order, num_workers=2, **pinned)
    epochs = [tuple(found[start : start + 48]) for start in range(0, 192, 48)]
    moved = sum(
        one != other for epoch in epochs for one, other in zip(epoch, twin, strict=True)
    )
    numbers.within("damaged or out of order", moved, 0.0)
    numbers.within("random numbers repeated", float(len(draws) - len({*draws})), 0.0)
    numbers.within("repeated", 192.0 - sum(len({*epoch}) for epoch in epochs), 0.0)
    numbers.within("epochs alike", 4.0 - len({*epochs}), 0.0)


def _loaded(
    samples: Drawing, device: torch.device, **settings: object
) -> tuple[list[int], list[int]]:
    """Return the samples of four epochs, -1 for a damaged one, and the numbers drawn for them."""
    # A function, at whose end the workers end: a loader that a failed check's traceback keeps until
    # garbage is collected waits five seconds for each.
    found, draws = list[int](), list[int]()
    kept, anew = (
        DataLoader(samples, 6, persistent_workers=each, **settings) for each in (1, 0)
    )
    for loader in (kept, kept, anew, anew):
        # Kept until the epoch has ended: memory that is used again too early shows.
        for x, number, draw in [
            (x.to(device, non_blocking=True), *more) for x, *more in loader
        ]:
            draws += draw.flatten().tolist()
            whole = (x == number.to(device)[:, None]).all(1).cpu()
            found += torch.where(whole, number, -1).tolist()
    return found, draws
