"""The rotary embeddings under test, as the models in the field implement them."""

import torch
from torch import Tensor


def table(positions: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return cosine and sine, positions by width / 2, computed on the device of the positions."""
    channels = torch.arange(0, width, 2, device=positions.device)
    exponent = channels.float() / width
    angle = torch.outer(positions.float(), 1.0 / 10000.0**exponent)
    return angle.cos(), angle.sin()


def half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (i, i + R/2): Llama, Mistral, Qwen."""
    width = 2 * cos.shape[-1]
    first = x[..., : width // 2]
    second = x[..., width // 2 : width]
    left = first * cos - second * sin
    right = second * cos + first * sin
    turned = torch.cat([left, right], -1)
    return torch.cat([turned, x[..., width:]], -1)


def interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (2i, 2i + 1): ChatGLM2 and GLM-4."""
    width = 2 * cos.shape[-1]
    even = x[..., 0:width:2]
    odd = x[..., 1:width:2]
    left = even * cos - odd * sin
    right = odd * cos + even * sin
    turned = torch.stack([left, right], -1).flatten(-2)
    return torch.cat([turned, x[..., width:]], -1)


KINDS = {"half": half, "interleaved": interleaved}
