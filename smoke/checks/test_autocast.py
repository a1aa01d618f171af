"""Autocast: mixed precision takes effect, and its results are right."""

import torch
from torch import nn

from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.finding import fail
from smoke.reference import models, precision, reference


@check(
    "autocast.forward", stands_for="AMP set up for CUDA has no effect on XPU", full=True
)
def test_forward(device: torch.device, expect: Expect, numbers: Numbers) -> None:
    """Under autocast a product is in half precision and right, a loss in float32."""
    torch.manual_seed(0)
    layer, x = nn.Linear(48, 10), reference.noise(6, 48)
    layer, x, text = layer.to(device), x.to(device), torch.arange(6).to(device)
    for dtype in 2 * precision.half_types(device):
        numbers.step(f"autocast {reference.short(dtype)}")
        layer.weight.data.neg_()  # as an optimizer changes it between two steps
        weight, bias = (each.detach().cpu().double() for each in layer.parameters())
        right = x.cpu().double() @ weight.T + bias
        with torch.autocast(device.type, dtype=dtype):
            if expect.release("torch") >= (
                2,
                13,
            ):  # before it kept such a cast for training
                with torch.no_grad():
                    layer(x)
            product = layer(x)
            loss = nn.functional.cross_entropy(product, text)
            sums = nn.functional.layer_norm(x.softmax(-1), x.shape[-1:])
        _made_in(dtype, product, loss)
        _made_in(dtype, product, sums)
        wide = nn.functional.layer_norm(x.cpu().double().softmax(-1), x.shape[-1:])
        numbers.within("of float32", reference.error(sums, wide), 1e-5)
        found = torch.autograd.grad(product.sum(), layer.weight, allow_unused=True)[0]
        numbers.within("weights without a gradient", float(found is None), 0.0)
        name = reference.short(dtype)
        numbers.within(name, reference.error(product, right), reference.LIMITS[dtype])


def _made_in(dtype: torch.dtype, product: torch.Tensor, loss: torch.Tensor) -> None:
    if (product.dtype, loss.dtype) != (dtype, torch.float32):
        fail(
            "autocast-has-no-effect",
            f"a product is {product.dtype}, a loss {loss.dtype} under autocast to {dtype}",
            evidence=[f"product {product.dtype}", f"loss {loss.dtype}"],
        )


@check(
    "autocast.gradient",
    stands_for="AMP trains towards nothing on one device",
    full=True,
)
def test_gradient(device: torch.device, numbers: Numbers) -> None:
    """Under autocast a UNet's step, loss and gradients are right."""
    precision.prove(device, numbers, *models.denoising(), amp=True)
