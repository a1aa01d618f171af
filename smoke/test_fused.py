"""Fused operators are registered for the device, and right in each dtype and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from smoke import fused_operators, reference
from smoke.checks import check

if TYPE_CHECKING:
    from smoke.checks import Numbers
    from smoke.expect import Expect


@check(
    "fused.adamw",
    stands_for="a fused optimizer whose steps differ from the plain one's",
    depends=(),
)
def test_adamw(device: torch.device, numbers: Numbers) -> None:
    """AdamW, fused where this torch supports it, makes the steps of its paper."""
    weight = reference.noise(7, 13, seed=1)
    gradients = [reference.noise(7, 13, seed=seed) for seed in range(2, 7)]
    parameter = torch.nn.Parameter(weight.clone().to(device))
    fused = _can_fuse(device)
    numbers.record("fused", float(fused), "1")
    numbers.step(f"AdamW, fused={fused}")
    update = torch.optim.AdamW([parameter], lr=0.05, weight_decay=0.2, fused=fused)
    for gradient in gradients:
        parameter.grad = gradient.to(device)
        update.step()
    right = reference.adamw(weight, gradients, rate=0.05, decay=0.2)
    numbers.within("weight", reference.error(parameter, right), 1e-5)


def _can_fuse(device: torch.device) -> bool:
    """Return whether torch lists the device among those with a fused AdamW."""
    try:
        from torch.utils._foreach_utils import _get_fused_kernels_supported_devices
    except ImportError:
        return False
    return device.type in _get_fused_kernels_supported_devices()


@check(
    "fused.operators",
    stands_for="Could not run 'torch_ipex::mul_add' with arguments from the 'CPU' backend",
    when=lambda expect: "" if expect.fused_ops else "the spec names no fused operators",
    depends=(),
)
def test_operators(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """The fused operators of the spec have a kernel for the device, and it is right."""
    for name in expect.fused_ops:
        fused_operators.prove_operator(name, device, numbers)
