"""AdamW, and fused operators: registered for the device, and right in each dtype and layout."""

from functools import partial

import torch
from torch.utils import _foreach_utils

from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.reference import fused_operators, precision, reference


def names_operators(expect: Expect) -> str:
    """Apply to targets whose spec names fused operators."""
    return "" if expect.fused_ops else "the spec names no fused operators"


@check(
    "fused.adamw",
    stands_for="an optimizer that is right in float32, plain, and nowhere else",
)
def test_adamw(device: torch.device, numbers: Numbers) -> None:
    """AdamW, plain, over lists of tensors and fused where torch can, makes its paper's steps."""
    # A kernel over lists takes up to 110 tensors at once, and 65,536 elements of each.
    sizes = [7] * 130 + [70_001]
    ways: dict[str, dict[str, bool]] = {
        "plain": {"foreach": False},
        "lists": {"foreach": True},
    }
    supported = getattr(_foreach_utils, "_get_fused_kernels_supported_devices", list)
    if device.type in supported():
        ways["fused"] = {"fused": True}
    for dtype in (torch.float32, torch.bfloat16):
        noise = partial(reference.noise, sum(sizes), dtype=dtype)
        weight = noise(seed=1)
        gradients = [noise(seed=seed) for seed in (2, 3, 4)]
        right = reference.adamw(weight, gradients, rate=0.2, decay=0.3)
        for way, settings in ways.items():
            name = f"{way} {reference.short(dtype)}"
            numbers.step(name)
            pieces = weight.to(device).split(sizes)
            parts = [torch.nn.Parameter(piece.clone()) for piece in pieces]
            update = torch.optim.AdamW(parts, lr=0.2, weight_decay=0.3, **settings)
            for gradient in gradients:
                pieces = gradient.to(device).split(sizes)
                for part, piece in zip(parts, pieces, strict=True):
                    part.grad = piece
                if gradient is gradients[0]:
                    # Every step runs the same operators: one is enough to name them.
                    with precision.recorded(device, numbers):
                        update.step()
                else:
                    update.step()
            result = torch.cat([part.detach().cpu() for part in parts])
            error = reference.error(result, right)
            numbers.within(name, error, reference.LIMITS[dtype])


@check(
    "fused.operators",
    stands_for="Could not run 'torch_ipex::mul_add' with arguments from the 'CPU' backend",
    when=names_operators,
)
def test_operators(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """The fused operators of the spec have a kernel for the device, and it is right."""
    for name in expect.fused_ops:
        fused_operators.prove_operator(name, device, numbers)
