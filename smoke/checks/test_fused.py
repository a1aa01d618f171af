"""Fused operators are registered for the device, and right in each dtype and layout."""

import torch
from torch.utils import _foreach_utils

from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.reference import fused_operators, precision, reference


@check(
    "fused.adamw",
    stands_for="an optimizer that is right in float32, plain, and nowhere else",
)
def test_adamw(device: torch.device, numbers: Numbers) -> None:
    """AdamW, plain, over lists of tensors and fused where torch can, makes its paper's steps."""
    # A kernel over lists takes up to 110 tensors at once, and 65,536 elements of each.
    sizes, turned = [7] * 130 + [1015, 70_001], (29, 35)
    ways = {"plain": {"foreach": False}, "lists": {"foreach": True}}
    fused: list[str] = getattr(
        _foreach_utils, "_get_fused_kernels_supported_devices", list
    )()
    ways |= {"fused": {"fused": True}} if device.type in fused else {}
    for dtype in (torch.float32, torch.bfloat16):
        weight = reference.noise(sum(sizes), dtype=dtype, seed=1)
        gradients = [
            reference.noise(sum(sizes), dtype=dtype, seed=seed) for seed in range(2, 5)
        ]
        right = reference.adamw(weight, gradients, rate=0.2, decay=0.3)
        for way, settings in ways.items():
            numbers.step(name := f"{way} {reference.short(dtype)}")
            parts = [
                torch.nn.Parameter(part.clone().to(device))
                for part in weight.split(sizes)
            ]
            # A matrix of another layout, as of a tied or an imported layer.
            parts[-2] = torch.nn.Parameter(parts[-2].data.view(turned).t())
            update = torch.optim.AdamW(parts, lr=0.2, weight_decay=0.3, **settings)
            for step, gradient in enumerate(gradients):
                for part, own in zip(
                    parts, gradient.to(device).split(sizes), strict=True
                ):
                    part.grad = own.view(turned).t() if part.dim() == 2 else own
                # Every step runs the same operators: one is enough to name them.
                if step == 0:
                    with precision.recorded(device, numbers):
                        update.step()
                else:
                    update.step()
            found = torch.cat([part.detach().cpu().t().flatten() for part in parts])
            numbers.within(name, reference.error(found, right), reference.LIMITS[dtype])


@check(
    "fused.operators",
    stands_for="Could not run 'torch_ipex::mul_add' with arguments from the 'CPU' backend",
    when=lambda expect: "" if expect.fused_ops else "the spec names no fused operators",
)
def test_operators(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """The fused operators of the spec have a kernel for the device, and it is right."""
    for name in expect.fused_ops:
        fused_operators.prove_operator(name, device, numbers)
