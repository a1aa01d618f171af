"""The sizes of models: what begins at a batch, a width, a remainder of a tile."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    drawn,
    rows,
    statistics,
    whole,
)
from smoke.reference.reference import noise

# Images, filters and options: what begins at a batch, a width, a remainder of a tile.
Sizes = tuple[int, int, int, int]
CONVOLUTIONS: tuple[tuple[Sizes, Sizes, dict[str, Any]], ...] = (
    ((16, 8, 56, 16), (16, 8, 1, 7), {"stride": 2, "padding": 1}),
    ((16, 128, 8, 16), (32, 128, 5, 5), {"stride": 4}),
    ((2, 3, 28, 64), (32, 3, 3, 3), {"padding": 1}),
    ((3, 32, 64, 64), (8, 32, 3, 1), {"dilation": 2}),
    ((1, 64, 128, 7), (130, 32, 3, 1), {"stride": 2, "groups": 2}),
    ((2, 4, 128, 13), (64, 1, 4, 4), {"padding": 2, "dilation": 2, "groups": 4}),
    ((2, 257, 7, 16), (8, 257, 3, 3), {}),
    ((16, 1, 96, 8), (65, 1, 3, 3), {}),
    ((1, 64, 8, 66), (130, 32, 1, 1), {"padding": 1, "groups": 2}),
    ((1, 32, 64, 56), (8, 32, 3, 3), {"stride": 2, "padding": 1}),
)
TRANSPOSED: tuple[tuple[Sizes, Sizes, dict[str, Any]], ...] = (
    ((1, 8, 64, 96), (8, 4, 7, 7), {"stride": 2}),
    ((1, 16, 16, 96), (16, 16, 4, 4), {"padding": 1, "groups": 2}),
    ((2, 33, 8, 16), (33, 65, 4, 4), {"stride": 2, "padding": 1}),
    ((3, 257, 65, 13), (257, 1, 2, 2), {"stride": 4, "padding": 1}),
)
# Rows, inner width and columns of a linear layer.
LINEAR = (
    (1, 11008, 130),
    (3, 11008, 40),
    (33001, 24, 17),
    (129, 770, 513),
    (16, 4096, 257),
    (70001, 3, 5),
    (1025, 129, 64),
)


def convolutions() -> dict[str, Case]:
    """Return convolutions at sizes of models, in both layouts of images."""
    made: dict[str, Case] = {}
    for image, weights, options in CONVOLUTIONS:
        run = partial(both_layouts, F.conv2d, **options)
        name = f"conv2d of {image}, {weights}"
        made |= cases({name: run}, drawn(image, weights, weights[:1]), spared="plain")
    for image, weights, options in TRANSPOSED:
        run = partial(both_layouts, F.conv_transpose2d, **options)
        name = f"conv_transpose2d of {image}, {weights}"
        bias = (weights[1] * options.get("groups", 1),)
        made |= cases({name: run}, drawn(image, weights, bias), spared="plain")
    return made


def both_layouts(
    run: Callable[..., torch.Tensor],
    image: torch.Tensor,
    weights: torch.Tensor,
    bias: torch.Tensor,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a convolution of an image as it is, and of one in channels last."""
    last = image.to(memory_format=torch.channels_last)
    return run(image, weights, bias, **options), run(last, weights, bias, **options)


def linears() -> dict[str, Case]:
    """Return linear layers of few rows, of many, and of odd widths."""
    made: dict[str, Case] = {}
    for count, width, columns in LINEAR:
        name = f"linear of {count} x {width}, {columns}"
        inputs = drawn((count, width), (columns, width), (columns,))
        made |= cases({name: F.linear}, inputs, spared="plain")
    return made


def greatest(x: torch.Tensor, _: torch.Tensor) -> tuple[Any, ...]:
    """Return what is greatest of a vocabulary in which no two scores are equal."""
    scores = x.detach().float() + torch.arange(x.shape[-1], device=x.device) / 2**20
    return (
        scores.argmax(-1),
        scores.argmin(-1),
        scores.max(-1),
        scores.topk(50),
        scores.sort(-1)[0][:, ::999],
        scores.cumsum(-1)[:, ::999],
    )


CASES: dict[str, Case] = {
    **convolutions(),
    **linears(),
    **cases(
        {
            "product of 13,001 terms": lambda x, y: (
                x @ y,
                (y.mT @ x.mT),
                torch.addmm(x[:, :9], x, y),
            ),
        },
        inputs=drawn((5, 13001), (13001, 9)),
        spared="plain",
    ),
    **cases(
        {
            "products of a batch of 65": lambda x, y: (
                x @ y,
                torch.bmm(x, y),
                torch.baddbmm(y[:, :33], x, y),
            ),
        },
        inputs=drawn((65, 33, 65), (65, 65, 40)),
        spared="plain",
    ),
    **cases(
        {
            "attention of 1,500 words": F.scaled_dot_product_attention,
        },
        inputs=drawn((1, 1, 65, 64), (1, 1, 1500, 64), (1, 1, 1500, 64)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "attention of heads of 80": F.scaled_dot_product_attention,
        },
        inputs=drawn((2, 2, 65, 80), (2, 2, 1025, 80), (2, 2, 1025, 80)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "attention of heads of 160": F.scaled_dot_product_attention,
        },
        inputs=drawn((1, 2, 257, 160), (1, 2, 77, 160), (1, 2, 77, 160)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "attention of heads of 96, causal": lambda q, k, v: (
                F.scaled_dot_product_attention(q, k, v, is_causal=True)
            ),
        },
        inputs=drawn((2, 3, 130, 96), (2, 3, 130, 96), (2, 3, 130, 96)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "attention of heads of 256": lambda q, k, v: F.scaled_dot_product_attention(
                q, k, v, is_causal=True
            ),
        },
        inputs=drawn((1, 1, 129, 256), (1, 1, 129, 256), (1, 1, 129, 256)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "one word of each of 17": F.scaled_dot_product_attention,
        },
        inputs=drawn((17, 1, 1, 128), (17, 1, 515, 128), (17, 1, 515, 128)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "keys of other lengths in a batch": lambda q, k, v: (
                F.scaled_dot_product_attention(
                    q,
                    k,
                    v,
                    torch.arange(130, device=q.device)
                    < torch.tensor([130, 77, 5], device=q.device).view(3, 1, 1, 1),
                )
            ),
        },
        inputs=drawn((3, 2, 70, 64), (3, 2, 130, 64), (3, 2, 130, 64)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "a bias for each of a batch and head": lambda q, k, v: (
                F.scaled_dot_product_attention(
                    q, k, v, (k.detach()[..., :1].mT * 2).expand(3, 2, 70, 130)
                )
            ),
        },
        inputs=drawn((3, 2, 70, 64), (3, 2, 130, 64), (3, 2, 130, 64)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "attention in the layout of a projection": lambda q, k, v: (
                F.scaled_dot_product_attention(
                    q.transpose(1, 2),
                    k.transpose(1, 2),
                    v.transpose(1, 2),
                    is_causal=True,
                )
            ),
        },
        inputs=drawn((2, 300, 3, 64), (2, 300, 3, 64), (2, 300, 3, 64)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "attention with a scale of its own": lambda q, k, v: (
                F.scaled_dot_product_attention(q, k, v, scale=0.3)
            ),
        },
        inputs=drawn((2, 2, 70, 32), (2, 2, 200, 32), (2, 2, 200, 32)),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "cross_entropy of 128,257": F.cross_entropy,
            "log_softmax of 128,257": lambda x, i: (
                x.log_softmax(-1),
                x.softmax(-1),
                x.logsumexp(-1),
            ),
            "greatest at the end": lambda x, i: torch.cat(
                [
                    x.detach()[:, :-50],
                    torch.arange(50, 100, device=x.device, dtype=x.dtype).expand(9, -1),
                ],
                1,
            ).topk(50),
            "greatest of 128,257": greatest,
        },
        inputs=lambda: (noise(9, 128_257), *whole(128_257, 9)()),
        roundings=16,
        spared="plain",
    ),
    **cases(
        {
            "cross_entropy with many ignored": lambda x, i: (
                F.cross_entropy(x, i.masked_fill(i % 3 == 0, -100)),
                F.nll_loss(
                    x.log_softmax(1), i.masked_fill(i % 5 == 0, 7), ignore_index=7
                ),
            ),
        },
        inputs=lambda: (noise(700, 300), *whole(300, 700)()),
        spared="plain",
    ),
    **cases(
        {
            "embedding of 40,000 words": lambda x, i: (
                F.embedding(i, x[:500] / 64),
                (x / 64)[i[:30_000]],
                (x / 64).index_select(0, i),
            ),
        },
        inputs=lambda: (noise(40_000, 8), *whole(500, 40_000)()),
        roundings=48,
        spared="plain",
    ),
    **cases(
        {
            "sums of 3,000 rows": lambda x, i: (
                x.index_add(0, i, x[i] / 16),
                x.scatter_add(0, i[:, None].expand(-1, 33), x[i] / 16),
                x.index_put((i,), x[i] / 16, accumulate=True),
            ),
        },
        inputs=lambda: (noise(500, 33), *whole(500, 3000)()),
        roundings=48,
        spared="plain",
    ),
    **cases(
        {
            "draws of 128,257 with one that can be drawn": lambda i: (
                torch.multinomial(F.one_hot(i, 128_257).float(), 1),
                torch.multinomial(F.one_hot(i[:1], 128_257).float().expand(3, -1), 1),
            ),
        },
        inputs=whole(128_257, 9),
        spared="plain",
    ),
    **cases(
        {
            "copies between strided memory": lambda x: (
                x.new_zeros(700, 600)[:, ::2].copy_(x.mT),
                x.new_zeros(2, 350, 600)[..., 1::2].copy_(
                    x.view(300, 2, 350).permute(1, 2, 0)
                ),
                torch.cat([x.mT, x.mT[:, ::3]], 1),
                torch.stack([x[:, ::2].mT, x[:, 1::2].mT]),
            ),
            "in parts": lambda x: (
                torch.cat(x.chunk(7)[::-1]),
                x.roll((3, 5), (0, 1)),
                x.flip(0, 1),
            ),
            "means of strided": lambda x: (
                x[:, ::3].mean(),
                x.mT[5:].var(0),
                x[::2, 1::2].sum(1),
                x.mT.softmax(-1),
                F.layer_norm(x.mT, (300,)),
            ),
        },
        inputs=rows(1, 300, 700),
        spared="plain",
    ),
    **cases(
        {
            "norms at the size of images": lambda x: (
                F.group_norm(x, 32),
                F.group_norm(x, 4),
                F.instance_norm(x),
                F.batch_norm(x, None, None, training=True),
                F.layer_norm(x, x.shape[2:]),
            ),
            "norms of channels last": lambda x: (
                statistics(x.to(memory_format=torch.channels_last)),
                F.group_norm(x.to(memory_format=torch.channels_last), 8),
            ),
            "scaled images": lambda x: (
                F.interpolate(x[:, :8], scale_factor=2.0),
                F.avg_pool2d(x, 3, 2, 1),
                F.max_pool2d(x, 3, 2, 1),
                F.adaptive_avg_pool2d(x, 1),
                F.pixel_shuffle(x, 2),
                F.pad(x[:, :8], (1, 2, 3, 4), "reflect"),
            ),
        },
        inputs=rows(1, 2, 64, 66, 65),
        spared="plain",
    ),
    **cases(
        {
            "norms of 5,120": lambda x: (
                F.layer_norm(x, (5120,), x[0], x[1]),
                x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(),
            ),
            "gated": lambda x: (
                F.silu(x[:, :2560]) * x[:, 2560:],
                F.glu(x),
                F.gelu(x, approximate="tanh"),
            ),
        },
        inputs=rows(1, 17, 5120),
        spared="plain",
    ),
    # Down and up by two, patches, depthwise and pointwise, as networks of images have them.
    **cases(
        {
            "halved": lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
            "halved, channels last": lambda x, w, b: (
                F.conv2d(
                    x.to(memory_format=torch.channels_last), w, b, stride=2, padding=1
                ),
                F.conv2d(
                    x.to(memory_format=torch.channels_last),
                    w.to(memory_format=torch.channels_last),
                    b,
                    padding=1,
                ),
            ),
            "padded on two sides, halved": lambda x, w, b: F.conv2d(
                F.pad(x, (0, 1, 0, 1)), w, b, stride=2
            ),
            "depthwise, halved": lambda x, w, b: (
                F.conv2d(x, w[:8, :1], b[:8], stride=2, padding=1, groups=8),
                F.conv2d(
                    x.to(memory_format=torch.channels_last),
                    w[:8, :1],
                    b[:8],
                    padding=1,
                    groups=8,
                ),
            ),
            "pointwise": lambda x, w, b: (
                F.conv2d(x, w[..., :1, :1], b),
                F.conv2d(
                    x.to(memory_format=torch.channels_last), w[..., :1, :1], b, stride=2
                ),
            ),
            "doubled": lambda x, w, b: (
                F.conv_transpose2d(x[..., :33, :34], w[:8, :, :2, :2], b[:8], stride=2),
                F.conv2d(
                    F.interpolate(x[..., :33, :34], scale_factor=2.0), w, b, padding=1
                ),
            ),
        },
        inputs=drawn((2, 8, 65, 66), (12, 8, 3, 3), (12,)),
        spared="plain",
    ),
    **cases(
        {
            "patches of 14": lambda x, w, b: (
                F.conv2d(x, w, b, stride=14),
                F.conv2d(x.to(memory_format=torch.channels_last), w, b, stride=14),
            ),
            "stem": lambda x, w, b: F.conv2d(x, w[..., :7, :7], b, stride=2, padding=3),
        },
        inputs=drawn((2, 3, 112, 98), (10, 3, 14, 14), (10,)),
        spared="plain",
    ),
    **cases(
        {
            "sound": lambda x, w, b: (
                F.conv1d(x, w, b, padding=1),
                F.conv1d(x, w, b, stride=2, padding=1),
            ),
        },
        inputs=drawn((2, 8, 3000), (12, 8, 3), (12,)),
        spared="plain",
    ),
    **cases(
        {
            "scores as models make them": lambda q, k: (
                q.transpose(1, 2) @ k.permute(0, 2, 3, 1),
                q.transpose(1, 2) @ k.transpose(1, 2).mT,
                torch.einsum("bqhd,bkhd->bhqk", q, k),
            ),
        },
        inputs=drawn((2, 70, 3, 64), (2, 90, 3, 64)),
        spared="plain",
    ),
    # Views of images in channels last: some channels, and what begins later.
    **cases(
        {
            "channels of channels last": lambda x, w, b: (
                F.conv2d(x.to(memory_format=torch.channels_last)[:, 1:6], w, b),
                F.conv2d(
                    x.to(memory_format=torch.channels_last)[:, 3:],
                    w,
                    b,
                    stride=2,
                    padding=1,
                ),
            ),
            "later images of channels last": lambda x, w, b: (
                F.avg_pool2d(x.to(memory_format=torch.channels_last)[1:], 2),
                F.max_pool2d(x.to(memory_format=torch.channels_last)[:, 3:], 2),
                F.group_norm(x.to(memory_format=torch.channels_last)[1:], 4),
                F.batch_norm(
                    x.to(memory_format=torch.channels_last)[1:],
                    None,
                    None,
                    training=True,
                ),
                F.interpolate(
                    x.to(memory_format=torch.channels_last)[1:], scale_factor=2.0
                ),
                F.conv2d(x.to(memory_format=torch.channels_last)[1:, :5], w, b),
            ),
        },
        inputs=drawn((3, 8, 33, 34), (12, 5, 3, 3), (12,)),
        spared="plain",
    ),
    # Small differences of large scores are kept, as the greatest is taken away first.
    **cases(
        {
            "scores of 16,384": lambda x: (
                x.log_softmax(-1),
                x.softmax(-1),
                x.softmax(0),
                x.logsumexp(-1) - 16384,
                F.cross_entropy(x, x.detach().argmin(-1), reduction="none"),
            ),
        },
        inputs=lambda: (noise(33, 130) / 64 + 16384,),
        roundings=0,
        float32=0.0001,
        spared="plain",
    ),
    **cases(
        {
            "indices of one column, and of none": lambda x, i: (
                x.gather(0, i[:, None]),
                x.gather(1, i[:, None] % 33),
                x.scatter(0, i[:0, None], 1.0),
                x.scatter_add(0, i[:0, None], x[:0, :1]),
                x.index_add(0, i[:0], x[:0]),
                x.index_select(0, i[:0]),
                x.take_along_dim(i[:, None], 0),
            ),
        },
        inputs=lambda: (noise(300, 33), *whole(300, 300)()),
        spared="plain",
    ),
    **cases(
        {
            "places in a dimension of one": lambda x: (
                x[:, None].argmin(1),
                x[:, None].argmax(1),
                x[:, None].min(1),
                x[..., None].max(-1),
                x[None].sum(0),
                x[:, None].softmax(1),
            ),
        },
        inputs=rows(1, 40_001, 8),
        spared="plain gradient",
    ),
    **cases(
        {
            "means of a million rows": lambda x: (
                x.mean(0),
                x.sum(0),
                x.mean(),
                x.var(0),
                x.mT.mean(1),
            ),
        },
        inputs=lambda: (noise(1_000_003, 3) + 1,),
        roundings=0,
        float32=5e-05,
        spared="plain gradient",
    ),
}
