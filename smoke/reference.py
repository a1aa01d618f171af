"""Reference implementations in float64 on the CPU, and the error that a device may have.

Inputs are made in the dtype under test, then widened: the rounding of inputs is no error.
"""

from __future__ import annotations

import math

import torch

# Relative to the largest value of the reference. The machine epsilons are 1.2e-7, 9.8e-4 and
# 7.8e-3; the limits leave a few of them for another order of sums and for intermediate rounding.
LIMITS: dict[torch.dtype, float] = {
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def dtypes(device: torch.device) -> list[torch.dtype]:
    """Return the dtypes to check. The CPU has float16 arithmetic only since torch 2.3."""
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if device.type == "cpu" and release < (2, 3):
        return [torch.float32, torch.bfloat16]
    return list(LIMITS)


def short(dtype: torch.dtype) -> str:
    """Return ``float16`` for ``torch.float16``."""
    return str(dtype).rpartition(".")[2]


def noise(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Return normal noise on the CPU, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def error(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest deviation, relative to the largest value of the reference.

    Raises:
        ValueError: The shapes differ.
    """
    if value.shape != reference.shape:
        raise ValueError(f"shape {tuple(value.shape)}, expected {tuple(reference.shape)}")
    deviation = (value.detach().cpu().double() - reference).abs().max()
    return float(deviation / reference.abs().max())


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return causal softmax(q k^T / sqrt(d)) v."""
    query, key, value = query.double(), key.double(), value.double()
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    size = scores.shape[-2:]
    future = torch.ones(size, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -math.inf).softmax(-1) @ value


def adamw(
    weight: torch.Tensor,
    gradients: list[torch.Tensor],
    *,
    rate: float,
    decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
) -> torch.Tensor:
    """Return a weight after AdamW steps (Loshchilov & Hutter 2019, algorithm 2)."""
    weight = weight.double()
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate((item.double() for item in gradients), start=1):
        weight = weight * (1 - rate * decay)
        mean = betas[0] * mean + (1 - betas[0]) * gradient
        square = betas[1] * square + (1 - betas[1]) * gradient**2
        scale = (square / (1 - betas[1] ** step)).sqrt() + epsilon
        weight = weight - rate * mean / (1 - betas[0] ** step) / scale
    return weight


def angles(positions: torch.Tensor, width: int, base: float = 10000.0) -> torch.Tensor:
    """Return rotary angles, positions by width / 2 (Su et al. 2021, section 3.2.2)."""
    inverse = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.outer(positions.double(), inverse)


def rotate_half(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Rotate pairs (i, i + R/2) of the first R channels, as Llama does; the rest stays."""
    return _rotate(x, angle, interleaved=False)


def rotate_interleaved(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Rotate pairs (2i, 2i + 1) of the first R channels, as ChatGLM2 does; the rest stays."""
    return _rotate(x, angle, interleaved=True)


def _rotate(x: torch.Tensor, angle: torch.Tensor, *, interleaved: bool) -> torch.Tensor:
    """Rotate by complex products: no code under test does it this way, so no mistake is shared."""
    width = 2 * angle.shape[-1]
    turned, rest = x.double()[..., :width], x.double()[..., width:]
    if interleaved:
        pairs = torch.complex(turned[..., 0::2], turned[..., 1::2])
    else:
        pairs = torch.complex(turned[..., : width // 2], turned[..., width // 2 :])
    pairs = pairs * torch.polar(torch.ones_like(angle), angle)
    parts = (pairs.real, pairs.imag)
    joined = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    return torch.cat([joined, rest], -1)
