"""Functions of single elements, reductions and spectra, at sizes at which kernels change.

torch's own samples (`operators.samples`) have the other functions, and their options.
"""

import torch
from torch import fft
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import cases, distinct, drawn, in_place, rows, whole
from smoke.reference.reference import noise


def log(x):
    return torch.log(x.abs() + 0.5)


def rsqrt(x):
    return torch.rsqrt(x.abs() + 0.5)


def reciprocal(x):
    return 1 / (x.abs() + 1)


def power(x):
    return x.abs().pow(2.5)


def clamp(x):
    return x.clamp(-0.75, 1.5)


def gelu_by_tanh(x):
    return F.gelu(x, approximate="tanh")


def variance(x):
    return x.var(-1)


def deviation_of_columns(x):
    return x.std(0)


def norms(x):
    yield torch.linalg.vector_norm(x * 8)
    yield torch.linalg.vector_norm(x * 8, dim=-1)
    yield x.mul(8).norm(2, 0)


def any_and_all(x):
    yield (x > 3.5).any(-1)
    yield (x < 3.7).all(-1)
    yield (x > 2).any(0)


def changed_in_place(x):
    yield in_place(x, "mul_", 3)
    yield in_place(x, "clamp_", -1, 2)
    yield in_place(x, "tril_", 5)
    yield in_place(x, "fill_", 2.5)


def total(x):
    return x.sum(-1)


def mean(x):
    return (x + 1).mean(-1)


def total_of_columns(x):
    return x.sum(0)


def total_of_all(x):
    return x[:9].sum((0, 1))


def of_small(x):
    """Beside such arguments 1 leaves no bits."""
    yield x.log1p()
    yield x.expm1()
    yield x.tanh()
    yield x.erf()
    yield x.sin()


def mean_of_a_million(x):
    return (x + 1).mean() * 1000


def extremes(x):
    yield x.amax(-1)
    yield x.min(0)[0]
    yield x.max()


def places_of_extremes(x):
    yield x.argmax(-1)
    yield x.argmin(-1)


def rounded(x):
    yield (x / 8 + 0.25).floor()
    yield torch.round(x / 16)
    yield x.to(torch.int8)
    yield (x / 8).to(torch.int64)


def where(x, y):
    return torch.where(x > y, x, -y)


def chosen_by_mask(x, y):
    return x.mT[y.mT > 0]


def changed_by_another(x, y):
    yield in_place(x, "masked_fill_", y > 0, -7.0)
    yield in_place(x, "copy_", y)
    yield in_place(x, "add_", y)
    yield torch.add(x.detach(), y.detach(), out=in_place(x, "zero_"))


def integers(x):
    yield (x // 7) * 3 - x % 5
    yield (x << 2) - (x >> 1) ^ (x & 255)
    yield torch.div(x.int(), -11, rounding_mode="floor")
    yield x.to(torch.uint8) * 3
    yield x.to(torch.int8) * 5 - 7


def totals_of_integers(x):
    yield x.sum(-1)
    yield x.cumsum(0)
    yield x.amax(0)
    yield (x % 3).prod(-1)


def spectrum(x, y):
    waves = fft.ifft(torch.complex(x, y), norm="ortho")
    yield torch.view_as_real(waves)
    yield fft.irfft(fft.rfft(x) * 0.5, n=4000)
    yield fft.irfft(fft.rfft(x[:, 1:]), n=3999)
    windows = x.unfold(-1, 400, 160)
    yield torch.view_as_real(fft.rfft(windows))


def complex_products(x, y):
    left, right = torch.complex(x, y), torch.complex(y, x)
    yield (left * right.conj()).real
    yield torch.view_as_real(left.conj() @ right.mT)


CASES = {
    **cases(
        torch.exp,
        torch.sin,
        torch.cos,
        torch.tanh,
        torch.sigmoid,
        torch.erf,
        F.relu,
        F.leaky_relu,
        F.softplus,
        log,
        rsqrt,
        reciprocal,
        power,
        clamp,
        variance,
        deviation_of_columns,
        norms,
        any_and_all,
        changed_in_place,
    ),
    # No half type holds a part of a sum: it would be rounded more than once.
    **cases(total, mean, total_of_columns, total_of_all, roundings=2),
    # Infinity times zero is what the formula makes of it.
    **cases(F.gelu, gelu_by_tanh, F.silu, F.hardswish, spared="infinity"),
    **cases(of_small, inputs=lambda: (noise(33, 4097) / 8192,), roundings=0),
    **cases(mean_of_a_million, inputs=drawn((1_048_583,))),
    **cases(extremes, places_of_extremes, inputs=distinct),
    **cases(rounded, inputs=distinct, spared="large NaN infinity"),
    **cases(where, chosen_by_mask, changed_by_another, inputs=rows(2)),
    **cases(torch.addcmul, inputs=rows(3)),
    **cases(integers, totals_of_integers, inputs=whole(100_000, 70, 1001)),
    # Of audio, in complex64.
    **cases(
        spectrum,
        complex_products,
        inputs=drawn((17, 4000), (17, 4000)),
        roundings=0,
    ),
}
