"""Beyond the sizes at which grids of blocks, counters and float32 end."""

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    rows,
)

CASES: dict[str, Case] = {
    # Beyond 2 ** 22 columns.
    **cases(
        {
            "argsort, sort": lambda x: (x.argsort(0), x.sort(0, descending=True)),
            "max": lambda x: x.max(0),
            "flip, roll, contiguous": lambda x: (
                x.flip(0),
                x.roll(5, 1)[:, :9],
                x.mT.contiguous()[-9:],
            ),
            "sum, mean, cumsum": lambda x: (
                x.sum(0),
                x.mean(1),
                x.cumsum(1)[:, ::9999],
                x.amax(1),
            ),
            "where, masked_fill": lambda x: (
                torch.where(x > 0, x, -x)[:, -99:],
                x.masked_fill(x > 0, 2.0)[:, -99:],
            ),
            "argmax, argmin": lambda x: (x.argmax(1), x.argmin(1)),
            "index_select": lambda x: (
                x.detach()[:, ::1001],
                x.detach().index_select(
                    1, torch.arange(0, 2**22, 997, device=x.device)
                ),
            ),
            "cumsum, sum, nonzero": lambda x: (
                (x > 0).cumsum(1)[:, ::99991],
                (x > 0).sum(1),
                (x > 0).nonzero()[::99991],
            ),
            "gather": lambda x: x.detach().gather(
                1, torch.arange(2**22, 2**22 + 77, device=x.device).expand(2, -1)
            ),
            "cat, stack": lambda x: (
                torch.cat([x.detach(), x.detach()[:, :9]], 1)[:, -20:],
                torch.stack([x.detach(), x.detach()], 1)[1, 1, -9:],
            ),
            "exp": lambda x: x.exp()[:, -99:],
        },
        inputs=rows(1, 2, 2**22 + 77),
        roundings=0,
        spared="plain gradient",
    ),
    # Beyond 65,535 rows, which is the most blocks of a grid's second axis.
    **cases(
        {
            "softmax": lambda x: x.softmax(-1),
            "log_softmax": lambda x: x.log_softmax(0)[-9:],
            "layer_norm": lambda x: F.layer_norm(x, (4,)),
            "sum, amax, argmax": lambda x: (
                x.sum(1),
                x.amax(1),
                x.argmax(1),
                x.cumsum(1),
                x.sort(1),
            ),
            "topk, median, kthvalue": lambda x: (
                x.topk(2),
                x.median(1),
                x.kthvalue(2),
                x.prod(1),
                x.logsumexp(1),
            ),
            "bmm": lambda x: torch.bmm(x[:, :, None], x[:, None]),
            "bmm 2": lambda x: torch.bmm(x.view(-1, 2, 2), x.view(-1, 2, 2).mT),
            "baddbmm": lambda x: torch.baddbmm(
                x[:, :1, None], x[:, :, None], x[:, None], beta=0.5
            ),
            "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
            "group_norm, normalize": lambda x: (F.group_norm(x, 2), F.normalize(x)),
            "group_norm, instance_norm, layer_norm": lambda x: (
                F.group_norm(x.mT[None], 2),
                F.instance_norm(x.mT[None]),
                F.layer_norm(x.mT, (len(x),)),
                F.batch_norm(x.mT[None], None, None, training=True),
            ),
            "cross_entropy, argmin": lambda x: F.cross_entropy(x, x.detach().argmin(1)),
            "nll_loss, argmin": lambda x: (
                F.nll_loss(x, x.detach().argmin(1), reduction="sum") / 65_567
            ),
            "embedding": lambda x: F.embedding(
                torch.arange(0, 65_567, 3, device=x.device), x
            ),
            "index_select": lambda x: (
                x.index_select(0, torch.arange(65_566, 0, -5, device=x.device)),
                x[torch.arange(65_566, 0, -5, device=x.device)],
            ),
            "index_add": lambda x: x.index_add(
                0, torch.arange(65_566, 0, -5, device=x.device), x[:13114]
            ),
            "scatter, flip, roll": lambda x: (
                x.detach().scatter(
                    0,
                    torch.arange(65_566, -1, -1, device=x.device)[:, None].expand(
                        -1, 4
                    ),
                    x.detach(),
                ),
                x.flip(0),
                x.roll(3, 0),
            ),
            "max_pool1d, avg_pool1d": lambda x: (
                F.max_pool1d(x[:, None], 2),
                F.avg_pool1d(x[:, None], 2),
            ),
            "interpolate, pad": lambda x: (
                F.interpolate(x[:, None], 7, mode="linear"),
                F.pad(x[:, None], (1, 1), mode="reflect"),
            ),
            "interpolate, adaptive_avg_pool2d": lambda x: (
                F.interpolate(x[:, :, None, None], (2, 2), mode="nearest"),
                F.adaptive_avg_pool2d(x.view(-1, 1, 2, 2), 1),
            ),
            "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(
                x.view(-1, 2, 2), x.view(-1, 2, 2), x.view(-1, 2, 2)
            ),
            "unique, nonzero": lambda x: (
                x.detach().unique(dim=0)[-5:],
                x.detach().flatten().unique(return_inverse=True)[1],
                (x > 0).nonzero(),
            ),
            "repeat_interleave, contiguous, cumsum": lambda x: (
                x.repeat_interleave(2, 0),
                x.mT.contiguous(),
                x.mT.cumsum(1)[:, ::997],
                x.mT.softmax(1),
            ),
            "linear": lambda x: (F.linear(x, x[:7], x[0, :1]), x @ x[:4], x.mT @ x),
            "diff, unfold, var": lambda x: (
                x.diff(dim=0),
                x.unfold(0, 4, 1000),
                x.var(1),
                x.norm(dim=1),
                x.std(0),
            ),
            "inv, eye": lambda x: torch.linalg.inv(
                x.view(-1, 2, 2)[:999]
                + 5 * torch.eye(2, device=x.device, dtype=x.dtype)
            ),
            "norm, aminmax, logsumexp": lambda x: (
                x.norm(),
                x.norm(1),
                x.detach()[:999].norm(3),
                x.detach().aminmax(),
                x.logsumexp((0, 1)),
                x.argmax(),
            ),
            "std, var, mean": lambda x: (x.std(), x.var((0, 1)), x.mean()),
            "max_pool1d, avg_pool1d, pad": lambda x: (
                F.max_pool1d(x.mT, 3),
                F.avg_pool1d(x.mT, 3),
                F.pad(x.mT, (3, 2), mode="reflect"),
                F.interpolate(x.mT[None], scale_factor=0.5),
            ),
            "searchsorted, sort, contiguous": lambda x: (
                torch.searchsorted(x.sort(1)[0], x[:, :1].contiguous()),
                torch.histc(x.detach(), 9, -3, 3).sum(),
                torch.cdist(x[:999], x[-9:]),
            ),
        },
        inputs=rows(1, 65_537 + 30, 4),
        roundings=0,
        float32=5e-05,
        spared="plain",
    ),
    # cuDNN multiplies in TF32.
    **cases(
        {
            "conv1d": lambda x: F.conv1d(x[:, None], x[:3, None, :2]),
            "conv2d": lambda x: F.conv2d(x[:, :, None, None], x[:8, :, None, None]),
            "conv1d 2": lambda x: F.conv1d(x[:1, None], x[:, None, :3]),
            "conv1d, reshape, conv_transpose1d": lambda x: (
                F.conv1d(x.mT[None], x[:12].reshape(4, 4, 3)),
                F.conv_transpose1d(x.mT[None], x[:12].reshape(4, 4, 3), stride=2),
            ),
        },
        inputs=rows(1, 65_537 + 30, 4),
        roundings=0,
        float32=0.005,
        spared="plain",
    ),
    # Beyond 2 ** 24, which float32 does not count.
    **cases(
        {
            "bool, sum, count_nonzero": lambda x: (
                x.bool().sum(),
                x.sum(),
                x.bool().count_nonzero(),
            ),
            "sum": lambda x: x.float().sum(dtype=torch.float64).long(),
            "cumsum, all, bool": lambda x: (
                x.cumsum(0)[-3:],
                (x == 1).all(),
                x.bool().nonzero()[-3:],
            ),
            "ones_like, any, flip": lambda x: (
                (x - torch.ones_like(x)).any(),
                x[-3:],
                x.flip(0)[:3],
                x.view(torch.int8).max(),
            ),
            "argmax, bincount": lambda x: (
                torch.arange(2**24 + 3, device=x.device)[-3:],
                torch.arange(2**24 + 3, device=x.device).argmax(),
                x.bincount()[:3],
            ),
        },
        inputs=lambda: (torch.ones(2**24 + 3, dtype=torch.uint8),),
        spared="plain",
    ),
}
