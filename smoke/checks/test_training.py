"""Training as people do it: gradient checkpointing, loaders with workers and pinned memory."""

import random
from functools import partial
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
    wide, narrow = nn.Linear(64, 512), nn.Linear(512, 64)
    block = nn.Sequential(wide, nn.GELU(), nn.Dropout(), narrow).to(device)
    x = reference.noise(600, 64).to(device).requires_grad_()
    tensors = [x, *block.parameters()]
    ways = {
        "kept": block,
        "reentrant": partial(checkpoint, block, use_reentrant=True),
        "hooks": partial(checkpoint, block, use_reentrant=False),
    }
    gradients = {}
    for name, run in ways.items():
        numbers.step(name)
        torch.manual_seed(7)
        for _ in range(2):  # with two masks
            for tensor in tensors:
                tensor.grad = None
            with precision.recorded(device, numbers):
                loss = run(x).square().sum()
                loss.backward()
        parts = [tensor.grad.cpu().flatten() for tensor in tensors]
        gradients[name] = torch.cat(parts)
    right = gradients.pop("kept").double()
    for name, gradient in gradients.items():
        numbers.within(name, reference.error(gradient, right), 1e-5)


class Drawing(TensorDataset):  # type: ignore[misc]
    """Samples with random numbers each, as augmentations draw them in a worker."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        """Return the tensors of a sample, and its draws: of torch and of Python."""
        of_torch = int(torch.randint(2**62, ()))
        draws = torch.tensor([of_torch, random.getrandbits(62)])
        return (*super().__getitem__(index), draws)


@check(
    "training.loader",
    stands_for="workers repeat or damage batches",
    full=True,
)
def test_loader(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """Two workers and pinned memory bring each sample once an epoch, in the order of no worker."""
    settings: dict[str, Any] = {"num_workers": 2}
    if devices.kind(device) not in ("cpu", "mps"):
        settings["pin_memory"] = True
    # Older torch takes CUDA for granted; later it warns.
    if expect.release("torch") < (2, 6) and devices.kind(device) == "xpu":
        settings["pin_memory_device"] = device.type
    count = torch.arange(48)
    images = count[:, None].expand(48, 12288).float()
    samples = Drawing(images, count)
    order, twin = _shuffled(samples), _shuffled(samples)
    moved, draws = 0, list[int]()
    for persistent in (True, False):
        loader = DataLoader(
            samples, 6, sampler=order, persistent_workers=persistent, **settings
        )
        for _ in range(2):
            epoch = _loaded(loader, device, draws)
            moved += sum(a != b for a, b in zip(epoch, twin, strict=True))
        del loader  # its workers end: a failed check's traceback would keep them
    repeated = len(draws) - len(set(draws))
    numbers.within("damaged or out of order", float(moved), 0.0)
    numbers.within("random numbers repeated", float(repeated), 0.0)


def _shuffled(samples: Drawing) -> RandomSampler:
    generator = torch.Generator().manual_seed(0)
    return RandomSampler(samples, generator=generator)


def _loaded(loader: Any, device: torch.device, draws: list[int]) -> list[int]:
    """Return the samples of an epoch, -1 for a damaged one; add the numbers drawn for them."""
    # Kept until the epoch has ended: memory that is used again too early shows.
    batches = [(x.to(device, non_blocking=True), *more) for x, *more in loader]
    epoch = []
    for x, number, drawn in batches:
        draws += drawn.flatten().tolist()
        right = number.to(device)[:, None]
        is_whole = (x == right).all(1).cpu()
        epoch += torch.where(is_whole, number, -1).tolist()
    return epoch
