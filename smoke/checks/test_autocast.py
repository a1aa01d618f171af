"""Autocast: mixed precision takes effect, and its results are right."""

import torch
from torch import nn

from smoke.engine.check import Numbers, check
from smoke.engine.finding import fail
from smoke.reference import models, precision, reference


@check(
    "autocast.forward", stands_for="AMP set up for CUDA has no effect on XPU", full=True
)
def test_forward(device: torch.device, numbers: Numbers) -> None:
    """Under autocast a product is in half precision and right, a loss in float32."""
    torch.manual_seed(0)
    layer = nn.Linear(48, 10).to(device)
    x = reference.noise(6, 48).to(device)
    classes = torch.arange(6).to(device)
    # Each type twice: a cast that is kept must not outlive a change of the weights.
    for dtype in 2 * precision.half_types(device):
        name = reference.short(dtype)
        numbers.step(f"autocast {name}")
        layer.weight.data.neg_()  # as an optimizer changes it between two steps
        weight, bias = (part.detach().cpu().double() for part in layer.parameters())
        right = x.cpu().double() @ weight.T + bias
        with torch.autocast(device.type, dtype=dtype):
            product = layer(x)
            loss = nn.functional.cross_entropy(product, classes)
        if product.dtype != dtype or loss.dtype != torch.float32:
            fail(
                "autocast-has-no-effect",
                f"a product is {product.dtype}, a loss {loss.dtype} under autocast to {dtype}",
                [f"product {product.dtype}", f"loss {loss.dtype}"],
            )
        numbers.within(name, reference.error(product, right), reference.LIMITS[dtype])


@check(
    "autocast.gradient",
    stands_for="AMP trains towards nothing on one device",
    full=True,
)
def test_gradient(device: torch.device, numbers: Numbers) -> None:
    """Under autocast a UNet's step, loss and gradients are right."""
    precision.prove(device, numbers, *models.denoising(), amp=True)
