"""Linear layers, normalisations, softmax, scans, losses and factorisations."""

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    drawn,
    rows,
    whole,
)
from smoke.reference.reference import noise


def from_qr(a: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return what the parts of a QR factorisation make: they are not unique themselves."""
    q, r = torch.linalg.qr(a.detach())
    return q @ r, q.mT @ q


def from_svd(a: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return what singular vectors make, which are not unique, and the singular values."""
    u, values, v = torch.linalg.svd(a.detach())
    return (u * values[:, None]) @ v, values


CASES: dict[str, Case] = {
    **cases(
        {
            "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
            "softmax": lambda x: x.softmax(-1),
            "softmax_of_columns": lambda x: x.softmax(0),
            "layer_norm_eps": lambda x: F.layer_norm(
                x / 99, x.shape[-1:], x[0], x[-1], eps=1e-2
            ),
            "log_softmax": lambda x: x.log_softmax(-1),
            "rms_norm": lambda x: (
                x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
            ),
            "normalize": lambda x: F.normalize(x, 1, 0, 1e-3),
            "huber": lambda x: F.huber_loss(
                x, x.flip(-1), reduction="none", delta=0.7
            ).sum(-1),
            "smooth_l1": lambda x: F.smooth_l1_loss(
                x, x.flip(-1), reduction="none", beta=0.6
            ).sum(-1),
            "divergence": lambda x: F.kl_div(
                x, (x.detach() / 9).softmax(-1), reduction="none"
            ).sum(-1),
        },
    ),
    **cases(
        {
            "rms_norm_eps": lambda x: F.rms_norm(x / 99, x.shape[-1:], x[0], eps=1e-2),
        },
        since="rms_norm",
    ),
    # The gradient is exp(x - 8.8), and 8.8 was rounded, by up to 8 u.
    **cases(
        {
            "logsumexp": lambda x: x.logsumexp(-1),
            "logsumexp_of_all": lambda x: x.logsumexp((0, 1)),
        },
        roundings=12,
    ),
    # A scan in the type itself: two passes over a tree of 4,096 leaves, and its gradient.
    **cases(
        {
            "cumsum": lambda x: x.cumsum(-1),
            "cumsum_of_columns": lambda x: x.cumsum(0),
        },
        roundings=48,
    ),
    **cases(
        {
            "cross_entropy": F.cross_entropy,
        },
        inputs=lambda: (noise(65, 32_003), *whole(32_003, 65)()),
    ),
    **cases(
        {
            "ignored": lambda x, i: F.cross_entropy(x, i % 3, ignore_index=2),
            "nll_loss": lambda x, i: F.nll_loss(x, i % 3, ignore_index=1),
            "smoothed": lambda x, i: F.cross_entropy(
                x, i, x[0].detach().abs(), label_smoothing=0.2
            ),
        },
        inputs=lambda: (noise(65, 33), *whole(33, 65)()),
    ),
    **cases(
        {
            "linear": F.linear,
            "linear_plain": lambda x, w, b: F.linear(x, w),
        },
        inputs=lambda: (*rows(1, 65, 770)(), *rows(1, 513, 770)(), noise(513)),
        spared="NaN infinity",
    ),
    **cases(
        {
            "einsum": lambda a, b: torch.einsum("bik,bkj->bji", a, b),
            "einsum_sums": lambda a, b: torch.einsum("bik,bkj->kb", a, b[..., :9]),
            "baddbmm": lambda a, b: torch.baddbmm(b[:, :1], a, b, beta=0.5, alpha=2),
            "vectors": lambda a, b: (a[0] @ b[0, :, 0], torch.outer(a[0, 0], b[0, 0])),
        },
        inputs=drawn((16, 77, 64), (16, 64, 513)),
        spared="NaN infinity",
    ),
    # In float32. The parts of a factorisation are not unique, and what they make is.
    **cases(
        {
            "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.mT),
            "solve": torch.linalg.solve,
            "inverse": lambda a, b: torch.linalg.inv(a),
            "determinant": lambda a, b: torch.linalg.slogdet(a)[1],
            "qr": from_qr,
            "svd": from_svd,
            "eigenvalues": lambda a, b: torch.linalg.eigvalsh(
                a.detach() @ a.detach().mT
            ),
            "triangular": lambda a, b: torch.linalg.solve_triangular(
                a.tril(), b, upper=False
            ),
        },
        inputs=lambda: (noise(4, 33, 33) + 9 * torch.eye(33), noise(4, 33, 33, seed=1)),
        roundings=0,
        spared="uncut positive negative large ties expanded",
    ),
}
