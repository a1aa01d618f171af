"""The sizes of models, and those at which tiles, grids of blocks and counters end."""

from functools import partial
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    drawn,
    statistics,
    whole,
    with_indices,
)
from smoke.reference.reference import noise

# Images, filters and options: what begins at a batch, a width, a remainder of a tile.
CONVOLUTIONS: tuple[Any, ...] = (
    ((16, 8, 56, 16), (16, 8, 1, 7), {"stride": 2, "padding": 1}),
    ((16, 128, 8, 16), (32, 128, 5, 5), {"stride": 4}),
    ((2, 4, 128, 13), (64, 1, 4, 4), {"padding": 2, "dilation": 2, "groups": 4}),
    ((2, 257, 7, 16), (8, 257, 3, 3), {}),
    ((2, 3, 112, 98), (10, 3, 14, 14), {"stride": 14}),
    ((2, 3, 112, 98), (10, 3, 7, 7), {"stride": 2, "padding": 3}),
)
TRANSPOSED: tuple[Any, ...] = (
    ((1, 16, 16, 96), (16, 16, 4, 4), {"padding": 1, "groups": 2}),
    ((2, 33, 8, 16), (33, 65, 4, 4), {"stride": 2, "padding": 1}),
)
# Rows, inner width and columns of a linear layer.
LINEAR = (
    (1, 11008, 130),
    (129, 770, 513),
    (16, 4096, 257),
    (70001, 3, 5),
)


def in_both_layouts(run, options, image, weights):
    """Yield a convolution of an image as it is, and of one in channels last."""
    yield run(image, weights, **options)
    yield run(image.to(memory_format=torch.channels_last), weights, **options)


def at_sizes_of_models():
    """Return convolutions, in both layouts of images, and linear layers."""
    made = {}
    for run, table in ((F.conv2d, CONVOLUTIONS), (F.conv_transpose2d, TRANSPOSED)):
        for image, weights, options in table:
            name = f"{run.__name__} of {image}, {weights}"
            call = partial(in_both_layouts, run, options)
            made[name] = Case(call, drawn(image, weights), spared="plain")
    for count, width, columns in LINEAR:
        name = f"linear of {count} x {width}, {columns}"
        inputs = drawn((count, width), (columns, width), (columns,))
        made[name] = Case(F.linear, inputs, spared="plain")
    return made


# A vocabulary.


def cross_entropy_of_a_vocabulary(x, i):
    yield F.cross_entropy(x, i)
    yield x.log_softmax(-1)
    yield x.softmax(-1)
    yield x.logsumexp(-1)


def greatest_at_the_end(x, i):
    end = torch.arange(50, 100, device=x.device, dtype=x.dtype)
    start = x.detach()[:, :-50]
    scores = torch.cat([start, end.expand(len(x), -1)], 1)
    yield from scores.topk(50)


def greatest_of_a_vocabulary(x, i):
    """No two scores are equal."""
    places = torch.arange(x.shape[-1], device=x.device)
    scores = x.detach().float() + places / 2**20
    yield scores.argmax(-1)
    yield from scores.max(-1)
    yield from scores.topk(50)
    yield scores.sort(-1)[0][:, ::999]
    yield scores.cumsum(-1)[:, ::999]


def embedding_of_40000_words(x, i):
    table = x[:500] / 64
    yield F.embedding(i, table)
    yield table.index_add(0, i, x / 64)


def draws_of_the_one_that_can_be_drawn(i):
    return torch.multinomial(F.one_hot(i, 128_257).float(), 1)


# Layouts at the size of images and of layers.


def copies_between_strides(x):
    yield x.new_zeros(700, 600)[:, ::2].copy_(x.mT)
    heads = x.view(300, 2, 350).permute(1, 2, 0)
    yield x.new_zeros(2, 350, 600)[..., 1::2].copy_(heads)
    turned = x.mT
    yield torch.cat([turned, turned[:, ::3]], 1)
    yield torch.stack([turned[::2], turned[1::2]])


def norms_of_images(x):
    yield F.group_norm(x, 32)
    yield F.instance_norm(x)
    yield F.layer_norm(x, x.shape[2:])
    last = x.to(memory_format=torch.channels_last)
    yield F.group_norm(last, 8)
    yield from statistics(last)


def views_of_channels_last(x, weights, bias):
    """Some channels, and what begins later."""
    last = x.to(memory_format=torch.channels_last)
    yield F.conv2d(last[:, 1:6], weights, bias)
    yield F.conv2d(last[1:, 3:], weights, bias, stride=2, padding=1)
    yield F.avg_pool2d(last[1:], 2)
    yield F.max_pool2d(last[:, 3:], 2)
    yield F.group_norm(last[1:], 4)
    yield F.interpolate(last[1:], scale_factor=2.0)


def indices_of_one_column_and_of_none(x, i):
    yield x.gather(0, i[:, None])
    yield x.gather(1, i[:, None] % 33)
    yield x.scatter(0, i[:0, None], 1.0)
    yield x.index_add(0, i[:0], x[:0])
    yield x.index_select(0, i[:0])
    yield x.take_along_dim(i[:, None], 0)


def means_of_a_million_rows(x):
    yield x.mean(0)
    yield x.mean()
    yield x.var(0)
    yield x.mT.mean(1)


# Beyond 2 ** 22 columns.


def ordered_of_many_columns(x):
    """The places of equal numbers are not defined: what lies at them is."""
    first = x[:1]
    yield first.gather(1, first.argsort(1))[:, ::997]
    yield x.argmax(1)
    yield x.max(0)[0]


def totals_of_many_columns(x):
    yield x.sum(1)
    yield x.cumsum(1)[:, ::9999]
    yield (x > 0).cumsum(1)[:, ::99991]
    yield (x > 0).nonzero()[::99991]


def moved_of_many_columns(x):
    yield x.flip(0)
    yield x.mT.contiguous()[-9:]
    yield torch.where(x > 0, x, -x)[:, -99:]
    yield x.exp()[:, -99:]
    places = torch.arange(0, 2**22, 997, device=x.device)
    yield x.index_select(1, places)
    joined = torch.cat([x, x[:, :9]], 1)
    yield joined[:, -20:]


# Beyond 65,535 rows, which is the most blocks of a grid's second axis.


def softmax_of_many_rows(x):
    yield x.softmax(-1)
    yield x.log_softmax(0)[-9:]
    yield x.mT.softmax(1)


def totals_of_many_rows(x):
    yield x.sum(1)
    yield x.amax(1)
    yield x.argmax(1)
    yield x.cumsum(1)
    yield x.var(1)
    yield x.norm()


def ordered_of_many_rows(x):
    yield from x.sort(1)
    yield x.topk(2)[0]
    yield x.median(1)[0]
    yield (x > 0).nonzero()
    yield x.detach().unique(dim=0)[-5:]


def products_of_many_rows(x):
    squares = x.view(-1, 2, 2)
    yield torch.bmm(squares, squares.mT)
    yield F.linear(x, x[:7], x[0, :1])
    yield x.mT @ x


def norms_of_many_rows(x):
    yield F.layer_norm(x, (4,))
    yield F.batch_norm(x, None, None, training=True)
    yield F.group_norm(x, 2)
    yield F.instance_norm(x.mT[None])
    yield F.layer_norm(x.mT, (len(x),))


def cross_entropy_of_many_rows(x):
    return F.cross_entropy(x, x.detach().argmin(1))


def chosen_of_many_rows(x):
    places = torch.arange(65_566, 0, -5, device=x.device)
    yield F.embedding(places, x)
    yield x.index_select(0, places)
    yield x.index_add(0, places, x[: len(places)])
    yield x.flip(0)
    yield x.repeat_interleave(2, 0)


def convolutions_of_many_rows(x):
    filters = x[:12].reshape(4, 4, 3)
    yield F.conv1d(x.mT[None], filters)
    yield F.conv_transpose1d(x.mT[None], filters, stride=2)
    points = x[:, :, None, None]
    yield F.conv2d(points, points[:8])


# Beyond 2 ** 24, which float32 does not count.


def counted(x):
    yield x.bool().sum()
    yield x.sum()
    yield x.cumsum(0)[-3:]
    yield x.bool().nonzero()[-3:]
    yield x.bincount()[:3]


plain = partial(cases, spared="plain")
MANY_ROWS = drawn((65_567, 4))
CASES = {
    **at_sizes_of_models(),
    **plain(
        cross_entropy_of_a_vocabulary,
        greatest_at_the_end,
        greatest_of_a_vocabulary,
        inputs=with_indices((9, 128_257), 128_257, 9),
        roundings=16,
    ),
    **plain(
        embedding_of_40000_words,
        inputs=with_indices((40_000, 8), 500, 40_000),
        roundings=48,
    ),
    **plain(
        draws_of_the_one_that_can_be_drawn,
        inputs=whole(128_257, 9),
    ),
    **plain(
        copies_between_strides,
        inputs=drawn((300, 700)),
    ),
    **plain(norms_of_images, inputs=drawn((2, 64, 66, 65))),
    **plain(
        views_of_channels_last,
        inputs=drawn((3, 8, 33, 34), (12, 5, 3, 3), (12,)),
    ),
    **plain(
        indices_of_one_column_and_of_none,
        inputs=with_indices((300, 33), 300, 300),
    ),
    **plain(
        means_of_a_million_rows,
        inputs=lambda: (noise(1_000_003, 3) + 1,),
        roundings=0,
        float32=5e-05,
        spared="plain gradient",
    ),
    **plain(
        ordered_of_many_columns,
        totals_of_many_columns,
        moved_of_many_columns,
        inputs=drawn((2, 2**22 + 77)),
        roundings=0,
        spared="plain gradient",
    ),
    **plain(
        softmax_of_many_rows,
        totals_of_many_rows,
        ordered_of_many_rows,
        products_of_many_rows,
        norms_of_many_rows,
        cross_entropy_of_many_rows,
        chosen_of_many_rows,
        inputs=MANY_ROWS,
        roundings=0,
        float32=5e-05,
    ),
    # cuDNN multiplies in TF32.
    **plain(
        convolutions_of_many_rows,
        inputs=MANY_ROWS,
        roundings=0,
        float32=0.005,
    ),
    **plain(
        counted,
        inputs=lambda: (torch.ones(2**24 + 3, dtype=torch.uint8),),
        roundings=0,
    ),
}
