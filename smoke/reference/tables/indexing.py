"""Gathering, scattering, sorting and choosing."""

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    cases,
    distinct,
    indexed,
    rows,
    whole,
    with_indices,
)
from smoke.reference.reference import noise


def scatter(x, i, v):
    """By a permutation: the order in which equal indices are written is not defined."""
    return x.scatter(1, i.argsort(dim=-1, stable=True), v)


def gather(x, i, v):
    return x.gather(1, i)


def scatter_add(x, i, v):
    return x.scatter_add(1, i, v)


def index_add(x, i, v):
    return x.index_add(1, i[0], v)


def index_select(x, i, v):
    yield x.index_select(1, i[0])
    yield x[2:7, i[0, ::3]]


def index_put(x, i, v):
    """Each of ten places is hit up to 13 times."""
    places = i[0, :99] % 10
    return x.index_put((places,), v[:, :1].T, accumulate=True)


def gathered_of_five(x, i):
    """The indices are of fewer rows."""
    yield x.gather(4, i)
    part = x.detach()[:2, :3, ..., :3]
    yield x.scatter_add(4, i, part)
    yield x.scatter(4, i.argsort(-1), 2.0)


def of_five_dimensions(x, i):
    yield x.sum((1, 3))
    yield x.permute(4, 2, 0, 3, 1).contiguous()
    yield x.flip(1, 3)
    yield x.roll((1, 2), (0, 3))


def embedding(x, i, v):
    """Each of 4,097 rows is looked up 16 times on average, at most 35."""
    yield F.embedding(i, x.T)
    yield F.embedding(i[:, :50] % 97, x.T[:97], padding_idx=7)


def sort(x):
    yield from torch.sort(x, -1)
    # In a column numbers are equal: their order and their gradients are not defined.
    yield torch.sort(x.detach(), 0, descending=True)[0]


def topk(x):
    yield from x.topk(min(50, x.shape[-1]))
    least = x.detach().topk(min(9, len(x)), 0, largest=False)
    yield least.values


def median(x):
    yield from x.median(-1)
    yield from x.kthvalue(min(101, x.shape[-1]))


def masked_select(x):
    yield x.masked_select(x > 0)
    yield x.T[x.T > 0]


def running_extremes(x):
    """The gradient of one is that of up to 40 places: CUDA adds them up in the type under test."""
    yield x[..., :40].cummax(-1)[0]
    yield x[..., :40].cummin(-1)[0]
    # In a column numbers are equal, and which of them has the gradient is not defined.
    values = x.detach()
    yield values.cummax(-1)[0]
    yield values.cummin(0)[0]


def overlapping_views(x):
    """Views are written to, one after the other."""
    copy = x.detach().clone()
    copy[:, ::2].mul_(2)
    copy.mT[3:9].add_(copy.mT[:6].clone())
    copy.diagonal().zero_()
    return copy


def searchsorted(x):
    ordered, _ = x[0].sort()
    return torch.searchsorted(ordered, x.T.contiguous())


def unique(x):
    yield from x.unique(return_inverse=True, return_counts=True)
    yield from (x[0] // 99).unique_consecutive(return_counts=True)


def nonzero(x):
    return (x % 3 == 0).nonzero()


def counted(x):
    yield torch.bincount(x.flatten(), minlength=600)
    yield F.one_hot(x, 500)
    yield x[0].repeat_interleave(x[1] % 4)


def joined(x, y):
    yield torch.cat([x, y.flip(1)], 1)
    yield torch.stack([x, y], 1).flatten(1)
    yield F.pad(x.roll(77, 1), (3, 5), value=2.0)
    yield x.repeat_interleave(3, 0)
    yield x.repeat(3, 1)


CASES = {
    **cases(
        scatter,
        gather,
        scatter_add,
        index_add,
        index_select,
        inputs=indexed,
    ),
    **cases(
        gathered_of_five,
        of_five_dimensions,
        inputs=with_indices((3, 4, 5, 6, 8), 8, 2, 3, 5, 6, 3),
    ),
    **cases(
        index_put,
        inputs=lambda: (noise(20, 33), *indexed()[1:]),
        roundings=24,
    ),
    **cases(embedding, inputs=indexed, roundings=40),
    **cases(
        sort,
        topk,
        median,
        masked_select,
        overlapping_views,
        inputs=distinct,
    ),
    **cases(running_extremes, inputs=distinct, roundings=40),
    **cases(searchsorted, inputs=distinct, spared="large NaN infinity"),
    **cases(unique, nonzero, counted, inputs=whole(500, 30, 700)),
    **cases(joined, inputs=rows(2)),
}
