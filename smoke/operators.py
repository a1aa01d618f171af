"""Operators that programs use, each with inputs of a real size, for comparison with the CPU.

A case runs on the device in the dtype under test, and on the CPU in float64 with the same values.
Inputs are made so that rounding does not decide: values to be ordered are distinct, nothing is near
a pole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke import reference
from smoke.reference import noise

if TYPE_CHECKING:
    Inputs = Callable[[], tuple[torch.Tensor, ...]]


def rows(count: int = 1, *shape: int) -> Inputs:
    """Return noise, several times; 4,097 columns end inside of a block of each reduction kernel."""
    return lambda: tuple(noise(*(shape or (33, 4097)), seed=seed) for seed in range(count))


def whole(high: int, *shape: int) -> Inputs:
    """Return non-negative integers below a limit."""
    return lambda: (torch.randint(high, shape, generator=torch.Generator().manual_seed(4)),)


def distinct() -> tuple[torch.Tensor, ...]:
    """Return rows of distinct numbers that float16 and bfloat16 both hold, in random order."""
    return (noise(513, 256).argsort(-1).sub(128).float(),)


def indexed() -> tuple[torch.Tensor, ...]:
    """Return rows, indices into them, and values of the indices' shape."""
    return noise(33, 4097), *whole(4097, 33, 2000)(), noise(33, 2000, seed=2)


class Case(NamedTuple):
    """One operator: a function, and what makes its inputs on the CPU.

    The function returns a tensor or several; the gradients of the first are compared, too, where it
    has any. Floating inputs are cast to the dtype under test.
    """

    run: Callable[..., Any]
    inputs: Inputs = rows()
    # How many results, one after the other, some device rounds to half precision on the way to one
    # element: more than 8 where it adds up in that type; 0 for a case of float32 only.
    roundings: int = 8
    float32: float = reference.LIMITS[torch.float32]  # the limit in that type
    optional: bool = False  # whether torch may have no kernel for it on the device


def over(inputs: Inputs, roundings: int = 8, **functions: Callable[..., Any]) -> dict[str, Case]:
    """Return a case for each of some functions of the same inputs."""
    return {name: Case(function, inputs, roundings) for name, function in functions.items()}


def _attention(shape: tuple[int, int, int, int, int], mask: str = "none") -> Case:
    """Return a call of attention; the mask is causal, boolean, additive or none."""
    heads, groups, length, keys, size = shape

    def run(query: torch.Tensor, *pair: torch.Tensor) -> torch.Tensor:
        first, second = (torch.arange(count, device=query.device) for count in (length, keys))
        places = (7 * first[:, None] + 3 * second) % 5
        bias = {"boolean": places > 0, "additive": (places / 2).to(query.dtype)}.get(mask)
        key, value = (x.repeat_interleave(heads // groups, 1) for x in pair)
        if query.dtype == torch.float64:
            bias = torch.zeros(1) if mask == "none" else bias
            return reference.attention(query, key, value, bias)
        # With torch 2.5 came enable_gqa, which XPU's first kernels did not take.
        itself = "enable_gqa" in (F.scaled_dot_product_attention.__doc__ or "")
        if heads != groups and itself and query.device.type != "xpu":
            return F.scaled_dot_product_attention(query, *pair, bias, enable_gqa=True)
        causal = mask == "causal"
        return F.scaled_dot_product_attention(query, key, value, bias, is_causal=causal)

    # Scores of up to 8 are rounded, which moves their weights by 8 u.
    return Case(run, lambda: (noise(1, heads, length, size), noise(1, groups, keys, size, seed=1),
                              noise(1, groups, keys, size, seed=2)), roundings=16)  # fmt: skip


def _convolved(kind: str, **options: int) -> Case:
    size = {"1": (801,), "2": (25, 29), "3": (11, 13, 9)}[kind[-2]]
    kernel = (32, 32 // options.get("groups", 1), *[3] * len(size))
    return Case(lambda x, w: getattr(F, kind)(x, w, **options),
                lambda: (noise(2, 32, *size), noise(*kernel, seed=1)))  # fmt: skip


ARITHMETIC = {
    **{name: Case(getattr(torch, name)) for name in (
        "exp", "expm1", "square", "sin", "cos", "tanh", "sigmoid", "erf")},
    **{name: Case(getattr(F, name)) for name in (
        "gelu", "silu", "relu", "leaky_relu", "softplus", "mish", "hardswish")},
    **{name: Case(lambda x, name=name: getattr(torch, name)(x.abs() + 0.5)) for name in (
        "log", "log1p", "sqrt", "rsqrt", "reciprocal")},
    **over(
        rows(), pow=lambda x: x.abs().pow(2.5), atan2=lambda x: torch.atan2(x, x.abs() + 1),
        gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), div=lambda x: 1 / (x.abs() + 1),
        clamp=lambda x: x.clamp(-0.75, 1.5), sign=lambda x: x.abs() - 3 * x.neg() * x.sign(),
        sum=lambda x: x.sum(-1), sum_of_columns=lambda x: x.sum(0), var=lambda x: x.var(-1),
        mean=lambda x: (x + 1).mean(-1), norm=lambda x: torch.linalg.vector_norm(x, dim=-1),
        std_of_columns=lambda x: x.std(0), any_all=lambda x: (x > 3.5).any(-1) ^ (x < 3.7).all(-1)),
    **over(
        distinct, remainder=lambda x: torch.remainder(x, 8), tril=lambda x: x.tril(3) - x.triu(9),
        rounded=lambda x: (x / 8 + 0.25).floor() + 2 * (x / 4).ceil() + 3 * (x / 4).trunc(),
        amax=lambda x: x.amax(-1) - 3 * x.amin(-1), argmax=lambda x: x.argmax(-1) + x.argmin(-1)),
    **over(
        rows(2), maximum=lambda x, y: torch.maximum(x, y) - torch.minimum(x, y),
        lerp=lambda x, y: torch.lerp(x, y, 0.3), where=lambda x, y: torch.where(x > y, x, -y),
        compare=lambda x, y: (x > y) ^ (x <= 0) | (x == y) & ~(x != y),
        masked_fill=lambda x, y: x.masked_fill(y > 0, -7.0),
        isfinite=lambda x, y: torch.isfinite(x / (y > 0)) ^ torch.isnan(x),
        # Rows are added up: a mean of all would have gradients that float16 cannot hold.
        mse_loss=lambda x, y: F.mse_loss(x, y, reduction="none").sum(-1),
        cosine_similarity=lambda x, y: F.cosine_similarity(x + 1, y + 1),
        binary_cross_entropy=lambda x, y: F.binary_cross_entropy_with_logits(
            x, y.sigmoid(), reduction="none").sum(-1)),
    **over(rows(1, 1_048_583), mean_of_million=lambda x: (x + 1).mean() * 1000),
    **over(rows(3), addcmul=torch.addcmul, addcdiv=lambda x, y, z: x.addcdiv(y, z.abs() + 1)),
    **over(whole(100_000, 70_001),
           integers=lambda x: (x // 7) * 3 - x % 5 + (x << 2) - (x >> 1) ^ (x & 255)),
    **over(rows(1, 9, 1025), 0, cumprod=lambda x: (1 + x / 100).cumprod(-1)),
    # Spectra of audio, in complex64.
    **over(
        rows(2, 17, 4000), 0, fft=lambda x, _: torch.view_as_real(torch.fft.fft(x)),
        product=lambda x, y: (torch.complex(x, y) * torch.complex(y, x + 1).conj()).real,
        polar=lambda x, y: (torch.polar(x.abs() + 1, y) / (torch.complex(x, y).abs() + 1)).imag,
        rfft=lambda x, _: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=4000),
        fft2=lambda x, _: torch.view_as_real(torch.fft.fft2(x)),
        stft=lambda x, _: torch.view_as_real(torch.fft.rfft(x.unfold(-1, 400, 160)))),
}  # fmt: skip
INDEXING = {
    **over(
        # A permutation: the order in which equal indices are written is not defined.
        indexed, scatter=lambda x, i, v: x.scatter(1, i.argsort(-1), v),
        gather=lambda x, i, _: x.gather(1, i), scatter_add=lambda x, i, v: x.scatter_add(1, i, v),
        index_add=lambda x, i, v: x.index_add(1, i[0], v), take=lambda x, i, _: x[2:7, i[0, ::3]],
        index_select=lambda x, i, _: x.index_select(1, i[0])),
    # Each of ten places is hit up to 13 times.
    "index_put": Case(lambda x, i, v: x.index_put((i[0, :99] % 10,), v[:, :1].T, accumulate=True),
                      lambda: (noise(20, 33), *indexed()[1:]), roundings=24),
    # Each of 4,097 rows is looked up 16 times on average, at most 35.
    **over(indexed, 40, embedding=lambda x, i, _: F.embedding(i, x.T)),
    **over(
        distinct, sort=lambda x: torch.sort(x, -1), topk=lambda x: x.topk(50),
        argsort_of_columns=lambda x: torch.argsort(x.T[:, :256], dim=-1, stable=True),
        kthvalue=lambda x: x.kthvalue(101), median=lambda x: x.median(-1),
        searchsorted=lambda x: torch.searchsorted(x[0].sort()[0], x.T.contiguous()),
        masked_select=lambda x: x.masked_select(x > 0)),
    **over(
        whole(500, 30, 700), unique=lambda x: x.unique(return_inverse=True, return_counts=True),
        bincount=lambda x: torch.bincount(x.flatten(), minlength=600),
        nonzero=lambda x: (x % 3 == 0).nonzero(), one_hot=lambda x: F.one_hot(x, 500)),
    **over(
        rows(2), cat=lambda x, y: torch.cat([x, y.flip(1)], 1),
        stack=lambda x, y: torch.stack([x, y], 1).flatten(1),
        roll_pad=lambda x, _: F.pad(x.roll(77, 1), (3, 5), value=2.0),
        grid=lambda x, y: torch.stack(torch.meshgrid(x[:, 0], y[0, :300], indexing="ij")),
        repeat=lambda x, _: x.repeat_interleave(3, 0) + x.repeat(3, 1)),
}  # fmt: skip
IMAGES = {
    **over(
        rows(1, 2, 12, 31, 43), group_norm=lambda x: F.group_norm(x, 4),
        batch_norm=lambda x: F.batch_norm(x, None, None, training=True),
        instance_norm=F.instance_norm, max_pool=lambda x: F.max_pool2d(x, 3, 2, 1),
        avg_pool=lambda x: F.avg_pool2d(x, 3, 2, 1), pixels=lambda x: F.pixel_shuffle(x, 2),
        adaptive_pool=lambda x: F.adaptive_avg_pool2d(x, 7), glu=lambda x: F.glu(x, 1),
        nearest=lambda x: F.interpolate(x, scale_factor=2.0), unfold=lambda x: F.unfold(x, 3),
        reflect=lambda x: F.pad(x, (4, 3, 2, 5), mode="reflect"),
        permute=lambda x: x.permute(3, 0, 2, 1).contiguous().flatten(1)),
    # A coordinate of up to 61 is rounded, thrice, which shifts it by 1e-5 pixels.
    **{name: Case(lambda x, mode=name: F.interpolate(x, size=(50, 61), mode=mode),
                  rows(1, 2, 12, 31, 43), float32=3e-5) for name in ("bilinear", "bicubic")},
    "grid_sample": Case(lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
                        lambda: (noise(2, 12, 31, 43), noise(2, 20, 20, 2)), 0, 3e-5),
    "conv1d": _convolved("conv1d", padding=1),
    **{f"conv2d {options}": _convolved("conv2d", **options) for options in (
        {}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"groups": 4},
        {"groups": 32, "padding": 1})},
    "conv2d transposed": _convolved("conv_transpose2d", stride=2, padding=1),
    "conv3d": _convolved("conv3d", padding=1),
}  # fmt: skip
LAYERS = {
    **over(rows(), layer_norm=lambda x: F.layer_norm(x, x.shape[-1:]),
           rms_norm=lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
           softmax=lambda x: x.softmax(-1), softmax_of_columns=lambda x: x.softmax(0),
           log_softmax=lambda x: x.log_softmax(-1)),
    # The gradient is exp(x - 8.8), and 8.8 was rounded, by up to 8 u.
    **over(rows(), 12, logsumexp=lambda x: x.logsumexp(-1)),
    # A scan in the type itself: two passes over a tree of 4,096 leaves, and its gradient.
    **over(rows(), 48, cumsum=lambda x: x.cumsum(-1)),
    "cross_entropy": Case(F.cross_entropy, lambda: (noise(65, 32_003), *whole(32_003, 65)())),
    "linear": Case(F.linear, lambda: (*rows(1, 65, 770)(), *rows(1, 513, 770)(), noise(513))),
    **over(lambda: (noise(16, 77, 64), noise(16, 64, 513, seed=1)),
           einsum=lambda a, b: torch.einsum("bik,bkj->bji", a, b),
           baddbmm=lambda a, b: torch.baddbmm(b[:, :1], a, b)),
}  # fmt: skip
ATTENTION = {
    "causal": _attention((2, 2, 257, 257, 64), "causal"),
    "plain": _attention((2, 2, 256, 256, 128)),
    "grouped heads": _attention((8, 2, 200, 200, 64), "boolean"),
    "cross": _attention((2, 2, 129, 77, 40), "additive"),  # as a UNet's
    "one word": _attention((4, 4, 1, 300, 128)),  # a new one, against a cache
    "long": _attention((1, 1, 2048, 2048, 64)),
    "long causal": _attention((1, 1, 2048, 2048, 128), "causal"),
}
