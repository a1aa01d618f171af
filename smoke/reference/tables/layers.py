"""Linear layers, normalisations, softmax, scans, losses and factorisations."""

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import cases, drawn, with_indices
from smoke.reference.reference import noise


def layer_norm(x):
    return F.layer_norm(x, x.shape[-1:])


def rms_norm(x):
    mean = x.square().mean(-1, keepdim=True)
    return x * torch.rsqrt(mean + 1e-6)


def softmax(x):
    return x.softmax(-1)


def log_softmax(x):
    return x.log_softmax(-1)


def logsumexp(x):
    """The gradient is exp(x - 8.8), and 8.8 was rounded, by up to 8 u."""
    return x.logsumexp(-1)


def cumsum(x):
    """A scan in the type itself: two passes over a tree of 4,096 leaves, and its gradient."""
    return x.cumsum(-1)


def cumsum_of_columns(x):
    return x.cumsum(0)


def losses_of_classes(x, i):
    yield F.cross_entropy(x, i % 3, ignore_index=2)
    yield F.nll_loss(x, i % 3, ignore_index=1)
    weights = x[0].detach().abs()
    yield F.cross_entropy(x, i, weights, label_smoothing=0.2)


def linear_without_bias(x, weights, bias):
    return F.linear(x, weights)


def einsum(a, b):
    yield torch.einsum("bik,bkj->bji", a, b)
    yield torch.einsum("bik,bkj->kb", a, b[..., :9])


def baddbmm(a, b):
    return torch.baddbmm(b[:, :1], a, b, beta=0.5, alpha=2)


def equations():
    """Make matrices far from singular ones, and right sides."""
    return noise(4, 33, 33) + 9 * torch.eye(33), noise(4, 33, 33, seed=1)


def cholesky(a, b):
    return torch.linalg.cholesky(a @ a.mT)


def triangular(a, b):
    return torch.linalg.solve_triangular(a.tril(), b, upper=False)


def factorised(a, b):
    """The parts of a factorisation are not unique, and what they make is."""
    q, r = torch.linalg.qr(a.detach())
    yield q @ r
    yield q.mT @ q
    u, values, v = torch.linalg.svd(a.detach())
    yield (u * values[:, None]) @ v
    yield values


CASES = {
    **cases(
        layer_norm,
        rms_norm,
        softmax,
        log_softmax,
    ),
    **cases(logsumexp, roundings=12),
    **cases(cumsum, cumsum_of_columns, roundings=48),
    **cases(
        F.cross_entropy,
        inputs=with_indices((65, 32_003), 32_003, 65),
    ),
    **cases(losses_of_classes, inputs=with_indices((65, 33), 33, 65)),
    **cases(
        F.linear,
        linear_without_bias,
        inputs=drawn((65, 770), (513, 770), (513,)),
        spared="NaN infinity",
    ),
    **cases(
        einsum,
        baddbmm,
        inputs=drawn((16, 77, 64), (16, 64, 513)),
        spared="NaN infinity",
    ),
    # In float32.
    **cases(
        cholesky,
        torch.linalg.solve,
        triangular,
        factorised,
        inputs=equations,
        roundings=0,
        spared="uncut positive negative large ties expanded",
    ),
}
