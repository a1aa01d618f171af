"""Gathering, scattering, sorting and choosing."""

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    distinct,
    in_place,
    indexed,
    rows,
    whole,
    written,
)
from smoke.reference.reference import noise

CASES: dict[str, Case] = {
    # A permutation: the order in which equal indices are written is not defined.
    **cases(
        {
            "scatter": lambda x, i, v: x.scatter(1, i.argsort(-1), v),
            "gather": lambda x, i, v: x.gather(1, i),
            "scatter_add": lambda x, i, v: x.scatter_add(1, i, v),
            "index_add": lambda x, i, v: x.index_add(1, i[0], v),
            "index_add_": lambda x, i, v: in_place(
                x, "index_add_", 1, i[0], v.detach()
            ),
            "take": lambda x, i, v: x[2:7, i[0, ::3]],
            "index_select": lambda x, i, v: x.index_select(1, i[0]),
            "index_copy": lambda x, i, v: x.index_copy(1, i[0].argsort(), v),
            "index_fill": lambda x, i, v: x.index_fill(1, i[0], 2.0),
            "scatter_least": lambda x, i, v: x.scatter_reduce(1, i, v, "amin"),
            "scatter_largest": lambda x, i, v: x.scatter_reduce(
                1, i, v, "amax", include_self=False
            ),
            "scatter_mean": lambda x, i, v: x.scatter_reduce(1, i, v, "mean"),
        },
        inputs=indexed,
    ),
    # Five dimensions; the indices are of fewer rows.
    **cases(
        {
            "gather of five": lambda x, i: (
                x.gather(4, i),
                x.scatter_add(4, i, x.detach()[:2, :3, ..., :3]),
                x.scatter(4, i.argsort(-1), 2.0),
            ),
            "of five": lambda x, i: (
                x.sum((1, 3)),
                x.detach().amax(2),
                x.permute(4, 2, 0, 3, 1).contiguous(),
                x.flip(1, 3),
                x.roll((1, 2), (0, 3)),
                x.sort(2)[0],
            ),
        },
        inputs=lambda: (noise(3, 4, 5, 6, 8), *whole(8, 2, 3, 5, 6, 3)()),
    ),
    # Each of ten places is hit up to 13 times.
    **cases(
        {
            "index_put": lambda x, i, v: x.index_put(
                (i[0, :99] % 10,), v[:, :1].T, accumulate=True
            ),
        },
        inputs=lambda: (noise(20, 33), *indexed()[1:]),
        roundings=24,
    ),
    # Each of 4,097 rows is looked up 16 times on average, at most 35.
    **cases(
        {
            "embedding": lambda x, i, v: F.embedding(i, x.T),
            "padded_embedding": lambda x, i, v: F.embedding(
                i[:, :50] % 97, x.T[:97], padding_idx=7
            ),
        },
        inputs=indexed,
        roundings=40,
    ),
    **cases(
        {
            "sort": lambda x: torch.sort(x, -1),
            "descending": lambda x: torch.sort(x, 0, descending=True),
            "topk": lambda x: x.topk(50),
            "least": lambda x: x.topk(9, 0, largest=False),
            "kthvalue": lambda x: x.kthvalue(101),
            "median": lambda x: x.median(-1),
            "argsort_of_columns": lambda x: torch.argsort(
                x.T[:, :256], dim=-1, stable=True
            ),
            "stable": lambda x: torch.sort(
                (x / 32).floor(), stable=True, descending=True
            )[1],
            "masked_select": lambda x: x.masked_select(x > 0),
            "masked_columns": lambda x: x.T[x.T > 0],
            "cummax": lambda x: (x.cummax(-1)[0], x.cummin(0)[0]),
            "flip": lambda x: x.flip(0, -1).rot90(),
            "views": lambda x: written(x.detach().clone()),
            "diff": lambda x: x.diff(dim=-1),
        },
        inputs=distinct,
    ),
    **cases(
        {
            "searchsorted": lambda x: torch.searchsorted(
                x[0].sort()[0], x.T.contiguous()
            ),
            "histogram": lambda x: torch.histc(x.detach().float(), 37, -90, 90),
        },
        inputs=distinct,
        spared="large NaN infinity",
    ),
    **cases(
        {
            "logcumsumexp": lambda x: x.logcumsumexp(-1),
        },
        inputs=rows(1, 9, 1025),
        roundings=0,
    ),
    # A place among 1,025 is rounded.
    **cases(
        {
            "quantile": lambda x: x.detach().quantile(
                x.new_tensor([0.1, 0.5, 0.77]), -1
            ),
        },
        inputs=rows(1, 9, 1025),
        roundings=0,
        float32=0.0001,
    ),
    **cases(
        {
            "unique": lambda x: x.unique(return_inverse=True, return_counts=True),
            "nonzero": lambda x: (x % 3 == 0).nonzero(),
            "bincount": lambda x: torch.bincount(x.flatten(), minlength=600),
            "one_hot": lambda x: F.one_hot(x, 500),
            "runs": lambda x: (x[0] // 99).unique_consecutive(return_counts=True),
            "repeated": lambda x: x[0].repeat_interleave(x[1] % 4),
            "bucketize": lambda x: torch.bucketize(
                x, torch.arange(0, 500, 7, device=x.device)
            ),
        },
        inputs=whole(500, 30, 700),
    ),
    **cases(
        {
            "cat": lambda x, y: torch.cat([x, y.flip(1)], 1),
            "stack": lambda x, y: torch.stack([x, y], 1).flatten(1),
            "roll_pad": lambda x, y: F.pad(x.roll(77, 1), (3, 5), value=2.0),
            "repeat": lambda x, y: x.repeat_interleave(3, 0) + x.repeat(3, 1),
            "grid": lambda x, y: torch.stack(
                torch.meshgrid(x[:, 0], y[0, :300], indexing="ij")
            ),
        },
        inputs=rows(2),
    ),
}
