"""Reference implementations in float64 on the CPU, and the error that a device may have.

Inputs are made in the dtype under test, then widened: the rounding of inputs is no error.
"""

import math

import torch
from torch import Tensor, nn

from smoke.engine.check import Numbers

# Relative to the largest value of the reference. One rounding is off by at most u: 6.0e-8, 4.9e-4
# and 3.9e-3. In half precision eight roundings one after the other are allowed, which no operator
# reaches that adds up in float32. There it is 168 u: `pow` may be off by 32 u (OpenCL C, 16 ulp);
# n terms of random sign, added up one after the other, are off by 0.4 u sqrt(n) of their deviation
# (Higham & Mary 2019): by six times that for n = 4,900, the longest that no device splits.
LIMITS: dict[torch.dtype, float] = {
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def release() -> tuple[int, int]:
    """Return major and minor version of this torch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def dtypes(device: torch.device) -> list[torch.dtype]:
    """Return the dtypes to check. The CPU has float16 arithmetic only since torch 2.3."""
    if device.type == "cpu" and release() < (2, 3):
        return [torch.float32, torch.bfloat16]
    return list(LIMITS)


def short(dtype: torch.dtype) -> str:
    """Return ``float16`` for ``torch.float16``."""
    return str(dtype).rpartition(".")[2]


def noise(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Return normal noise on the CPU, the same on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor of floating numbers in a type, and another as it is."""
    return x.to(dtype) if x.is_floating_point() else x


def error(value: Tensor, reference: Tensor) -> float:
    """Return the largest deviation, relative to the largest value of the reference.

    Raises:
        ValueError: The shapes differ.
    """
    shape = tuple(value.shape)
    right = tuple(reference.shape)
    if shape != right:
        raise ValueError(f"shape {shape}, expected {right}")
    deviation = (value.detach().cpu().double() - reference).abs()
    largest = float(reference.abs().max()) or 1.0
    return float(deviation.nan_to_num(math.inf).max()) / largest


def laid_out(x: Tensor, layout: str) -> Tensor:
    """Return the same values in another layout; ``strided`` is every other column, or heads."""
    if layout == "transposed" and x.dim():
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "strided":
        if x.dim() == 4:
            return x.transpose(1, 2).contiguous().transpose(1, 2)
        twice = torch.stack([x, x], -1).flatten(-2)
        x = twice[..., ::2]
    if layout == "offset":
        longer = torch.cat([x.new_zeros(3), x.flatten()])
        return longer[3:].view(x.shape)
    if layout == "channels-last" and x.dim() > 2:
        # Not `contiguous`, which leaves the strides of one channel as they are.
        last = x.movedim(1, -1).clone(memory_format=torch.contiguous_format)
        return last.movedim(-1, 1)
    if layout == "expanded" and x.dim() > 1:
        return x[:1].expand(x.shape)
    return x


def prove_product(
    device: torch.device,
    numbers: Numbers,
    dtype: torch.dtype,
    size: tuple[int, ...],
    *,
    positive: bool = False,
) -> None:
    """Fail the check if products are wrong; size: how many, their rows, inner width, columns."""
    batch, rows, inner, columns = size
    left = noise(batch, rows, inner, dtype=dtype, seed=1).squeeze(0)
    right = noise(batch, inner, columns, dtype=dtype, seed=2).squeeze(0)
    if positive:
        left, right = left.abs(), right.abs()
    limit = LIMITS[dtype]
    # Where products of float32 may be lowered to TF32 or bfloat16: nothing in the suite does it.
    if dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest":
        limit = LIMITS[torch.bfloat16]
    for layout in ("", "transposed "):
        name = f"{short(dtype)} {layout}{size}"
        numbers.step(name)
        a = left.to(device)
        b = right.to(device)
        if layout:
            a = a.mT.contiguous().mT
            b = b.mT.contiguous().mT
        product = (a @ b).cpu()
        numbers.within(name, _projected_error(left, right, product), limit)


def _projected_error(left: Tensor, right: Tensor, product: Tensor) -> float:
    """Return the error of a product of matrices, relative to the spread of its elements.

    Freivalds' check (1977): A B = C if A (B R) = C R for random R. Each column of R adds up 64
    columns of C with random signs: one element that is off by d shows as d / 8, and the roundings
    of 64 elements as that of one.
    """
    exact = left.double() @ _projected(right)
    deviation = _projected(product) - exact
    spread = product.double().square().mean().sqrt()
    return float(deviation.abs().max() / (8 * spread))


def _projected(x: Tensor) -> Tensor:
    missing = -x.shape[-1] % 64
    padded = nn.functional.pad(x.double(), (0, missing))
    signs = noise(padded.shape[-1], seed=11).sign()
    signed = padded * signs.double()
    return signed.unflatten(-1, (-1, 64)).sum(-1)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias) v; a boolean bias names the keys, None is causal."""
    query = query.double()
    key = key.double()
    value = value.double()
    width = query.shape[-1]
    scores = query @ key.transpose(-1, -2) / math.sqrt(width)
    if bias is None:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool)
        bias = allowed.tril()
    if not bias.is_floating_point():
        bias = torch.where(bias, 0.0, -math.inf)
    return (scores + bias.double()).softmax(-1) @ value


def adamw(
    weight: Tensor,
    gradients: list[Tensor],
    *,
    rate: float,
    decay: float,
) -> Tensor:
    """Return a weight after AdamW steps (Loshchilov & Hutter 2019, algorithm 2)."""
    beta1 = 0.9
    beta2 = 0.999
    epsilon = 1e-8
    weight = weight.double()
    mean = torch.zeros_like(weight)
    square = torch.zeros_like(weight)
    for number, rounded in enumerate(gradients, start=1):
        gradient = rounded.double()
        weight = weight * (1 - rate * decay)
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        scale = (square / (1 - beta2**number)).sqrt() + epsilon
        weight = weight - rate * mean / (1 - beta1**number) / scale
    return weight


def angles(positions: Tensor, width: int) -> Tensor:
    """Return rotary angles, positions by width / 2 (Su et al. 2021, section 3.2.2)."""
    channels = torch.arange(0, width, 2, dtype=torch.float64)
    inverse = 10000.0 ** (-channels / width)
    return torch.outer(positions.double(), inverse)


# Rotations by complex products: no code under test does it this way, so no mistake is shared.


def rotate_half(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate the pairs (i, i + R/2) of the first R channels, as Llama does."""
    half = angle.shape[-1]
    first, second, rest = x.double().tensor_split((half, 2 * half), -1)
    turned = _turned(first, second, angle)
    return torch.cat([turned.real, turned.imag, rest], -1)


def rotate_interleaved(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate the pairs (2i, 2i + 1) of the first R channels, as ChatGLM2 does."""
    width = 2 * angle.shape[-1]
    pairs, rest = x.double().tensor_split((width,), -1)
    even = pairs[..., ::2]
    odd = pairs[..., 1::2]
    turned = _turned(even, odd, angle)
    parts = torch.view_as_real(turned).flatten(-2)
    return torch.cat([parts, rest], -1)


def _turned(first: Tensor, second: Tensor, angle: Tensor) -> Tensor:
    turn = torch.polar(torch.ones_like(angle), angle)
    return torch.complex(first, second) * turn
