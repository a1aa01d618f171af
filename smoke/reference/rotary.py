"""The rotary embeddings under test, as the models in the field implement them."""

import torch


def table(
    positions: torch.Tensor, width: int, base: float = 10000.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine, positions by width / 2, computed on the device of the positions."""
    exponent = torch.arange(0, width, 2, device=positions.device).float() / width
    angle = torch.outer(positions.float(), 1.0 / base**exponent)
    return angle.cos(), angle.sin()


def half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate pairs (i, i + R/2): Llama, Mistral, Qwen."""
    width = 2 * cos.shape[-1]
    first, second = x[..., : width // 2], x[..., width // 2 : width]
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return torch.cat([turned, x[..., width:]], -1)


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate pairs (2i, 2i + 1): ChatGLM2 and GLM-4."""
    width = 2 * cos.shape[-1]
    even, odd = x[..., 0:width:2], x[..., 1:width:2]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1)
    return torch.cat([turned.flatten(-2), x[..., width:]], -1)


KINDS = {"half": half, "interleaved": interleaved}
