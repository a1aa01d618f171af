"""Functions of single elements, reductions and spectra, at sizes at which kernels change."""

import math

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    distinct,
    in_place,
    rows,
    whole,
)
from smoke.reference.reference import noise

CASES: dict[str, Case] = {
    **cases(
        {
            "exp": torch.exp,
            "expm1": torch.expm1,
            "exp2": torch.exp2,
            "square": torch.square,
            "sin": torch.sin,
            "cos": torch.cos,
            "tanh": torch.tanh,
            "sigmoid": torch.sigmoid,
            "sinh": torch.sinh,
            "asinh": torch.asinh,
            "atan": torch.atan,
            "erf": torch.erf,
            "erfc": torch.erfc,
            "nan_to_num": torch.nan_to_num,
            "relu": F.relu,
            "leaky_relu": F.leaky_relu,
            "relu6": F.relu6,
            "hardtanh": F.hardtanh,
            "hardsigmoid": F.hardsigmoid,
            "softplus": F.softplus,
            "elu": F.elu,
            "selu": F.selu,
            "log": lambda x: torch.log(x.abs() + 0.5),
            "log1p": lambda x: torch.log1p(x.abs() + 0.5),
            "log2": lambda x: torch.log2(x.abs() + 0.5),
            "log10": lambda x: torch.log10(x.abs() + 0.5),
            "sqrt": lambda x: torch.sqrt(x.abs() + 0.5),
            "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.5),
            "reciprocal": lambda x: torch.reciprocal(x.abs() + 0.5),
            "div": lambda x: 1 / (x.abs() + 1),
            "pow": lambda x: x.abs().pow(2.5),
            "cube": lambda x: x.pow(3),
            "clamp": lambda x: x.clamp(-0.75, 1.5),
            "sign": lambda x: x.abs() - 3 * x.neg() * x.sign(),
            "erfinv": lambda x: (x.tanh() / 2).erfinv(),
            "asin": lambda x: (x.tanh() / 2).asin() + (x.tanh() / 2).acos() / 2,
            "var": lambda x: x.var(-1),
            "var_of_all": lambda x: x.var((0, 1), correction=0, keepdim=True),
            "std_of_columns": lambda x: x.std(0),
            "std_mean": lambda x: torch.std_mean(x, -1, correction=0),
            "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
            "norm_1": lambda x: torch.linalg.vector_norm(x, 1, -1),
            "norm_3": lambda x: x.detach().norm(3, 0),
            "norm_of_large": lambda x: (
                torch.linalg.vector_norm(x * 8),
                torch.linalg.vector_norm(x * 8, dim=-1),
                x.mul(8).norm(2, 0),
            ),
            "norm_largest": lambda x: torch.linalg.vector_norm(
                x.detach(), math.inf, -1
            ),
            "any_all": lambda x: (x > 3.5).any(-1) ^ (x < 3.7).all(-1),
            "any_of_columns": lambda x: ((x > 2).any(0), (x < 2.5).all(0)),
            "to_half": lambda x: (x.bfloat16().float(), x.half().float()),
            "exp_": lambda x: in_place(x, "exp_"),
            "mul_by_": lambda x: in_place(x, "mul_", 3),
            "clamp_": lambda x: in_place(x, "clamp_", -1, 2),
            "tril_": lambda x: in_place(x, "tril_", 5),
            "fill_": lambda x: in_place(x, "fill_", 2.5),
            "relu_": lambda x: in_place(x, "relu_"),
        },
    ),
    # No half type holds a part of a sum: it would be rounded more than once.
    **cases(
        {
            "sum": lambda x: x.sum(-1),
            "mean": lambda x: (x + 1).mean(-1),
            "sum_of_columns": lambda x: x.sum(0),
            "sum_of_all": lambda x: x[:9].sum((0, 1)),
        },
        roundings=2,
    ),
    # Infinity times zero is what the formula makes of it.
    **cases(
        {
            "gelu": F.gelu,
            "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
            "silu": F.silu,
            "mish": F.mish,
            "hardswish": F.hardswish,
            "logsigmoid": F.logsigmoid,
            "softsign": F.softsign,
            "frac": torch.frac,
            "lgamma": lambda x: torch.lgamma(x.abs() + 0.5),
            "digamma": lambda x: torch.digamma(x.abs() + 0.5),
            "atan2": lambda x: torch.atan2(x, x.abs() + 1),
        },
        spared="infinity",
    ),
    # Small arguments, beside which 1 leaves no bits.
    **cases(
        {
            "of small": lambda x: (
                x.log1p(),
                x.expm1(),
                x.sinh(),
                x.asinh(),
                x.tanh(),
                x.atan(),
                x.erf(),
                x.sin(),
            ),
        },
        inputs=lambda: (noise(33, 4097) / 8192,),
        roundings=0,
    ),
    **cases(
        {
            "remainder": lambda x: torch.remainder(x, 8),
            "fmod": lambda x: x.fmod(9),
            "tril": lambda x: x.tril(3) - x.triu(9),
            "rounded": lambda x: (
                (x / 8 + 0.25).floor() + 2 * (x / 4).ceil() + 3 * (x / 4).trunc()
            ),
            "amax": lambda x: x.amax(-1) - 3 * x.amin(-1),
            "argmax": lambda x: x.argmax(-1) + x.argmin(-1),
            "max": lambda x: (x.max(-1)[0], x.min(0)[0], x.max()),
        },
        inputs=distinct,
    ),
    **cases(
        {
            "floor": lambda x: (
                torch.div(x, 8, rounding_mode="floor") + torch.round(x / 16)
            ),
            "converted": lambda x: x.to(torch.int8).int() - 3 * (x / 8).to(torch.int64),
        },
        inputs=distinct,
        spared="large NaN infinity",
    ),
    **cases(
        {
            "maximum": lambda x, y: torch.maximum(x, y) - torch.minimum(x, y),
            "where": lambda x, y: torch.where(x > y, x, -y),
            "where_of_column": lambda x, y: torch.where(x[:, :1] > y[:, :1], x, y[:1]),
            "copysign": torch.copysign,
            "compare": lambda x, y: (x > y) ^ (x <= 0) | (x == y) & ~(x != y),
            "masked_fill": lambda x, y: x.masked_fill(y > 0, -7.0),
            "isfinite": lambda x, y: torch.isfinite(x / (y > 0)) ^ torch.isnan(x),
            "kept": lambda x, y: x.mT[y.mT > 0],
            "put": lambda x, y: x.index_put((y[:, 0] > 0,), x.new_tensor(-7.0)),
            "cosine_similarity": lambda x, y: F.cosine_similarity(x + 1.25, y + 1.25),
            "masked_fill_": lambda x, y: in_place(x, "masked_fill_", y > 0, -7.0),
            "copy_": lambda x, y: in_place(x, "copy_", y),
            "add_": lambda x, y: in_place(x, "add_", y),
            "sub_": lambda x, y: in_place(x, "sub_", y),
            "mul_": lambda x, y: in_place(x, "mul_", y),
            "out": lambda x, y: torch.add(
                x.detach(), y.detach(), out=in_place(x, "zero_")
            ),
        },
        inputs=rows(2),
    ),
    **cases(
        {
            "lerp": lambda x, y: torch.lerp(x, y, 0.3),
            "hypot": torch.hypot,
            "xlogy": lambda x, y: torch.xlogy(x, y.sigmoid() + 0.1),
            "binary_cross_entropy": lambda x, y: F.binary_cross_entropy_with_logits(
                x, y.sigmoid(), reduction="none"
            ).sum(-1),
        },
        inputs=rows(2),
        spared="infinity",
    ),
    # Rows are added up: a mean of all would have gradients that float16 cannot hold.
    **cases(
        {
            "mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none").sum(-1),
        },
        inputs=rows(2),
    ),
    **cases(
        {
            "mean_of_million": lambda x: (x + 1).mean() * 1000,
        },
        inputs=rows(1, 1_048_583),
    ),
    **cases(
        {
            "addcmul": torch.addcmul,
            "addcdiv": lambda x, y, z: x.addcdiv(y, z.abs() + 1),
            "addcmul_": lambda x, y, z: in_place(x, "addcmul_", y, z),
            "addcdiv_": lambda x, y, z: in_place(x, "addcdiv_", y, z.abs() + 1),
        },
        inputs=rows(3),
    ),
    **cases(
        {
            "integers": lambda x: (
                (x // 7) * 3 - x % 5 + (x << 2) - (x >> 1) ^ (x & 255)
            ),
            "divided": lambda x: (
                x // -9 + x.fmod(7) + torch.div(x.int(), 11, rounding_mode="floor")
            ),
            "wrapped": lambda x: (
                x.to(torch.uint8) * 3,
                x.to(torch.int8) * 5 - 7,
                x.short() * 9,
            ),
            "bools": lambda x: (
                ((x % 2 == 0) & ~(x % 3 == 0) | (x > 90)).any(0) ^ (x > 9).all(0)
            ),
            "sums_of_integers": lambda x: (
                x.sum(-1),
                x.cumsum(0),
                x.amax(0),
                (x % 3).prod(-1),
                x.sort(0)[0],
            ),
        },
        inputs=whole(100_000, 70, 1001),
    ),
    **cases(
        {
            "cumprod": lambda x: (1 + x / 100).cumprod(-1),
        },
        inputs=rows(1, 9, 1025),
        roundings=0,
    ),
    # Spectra of audio, in complex64.
    **cases(
        {
            "fft": lambda x, y: torch.view_as_real(torch.fft.fft(x)),
            "fft2": lambda x, y: torch.view_as_real(torch.fft.fft2(x)),
            "ifft": lambda x, y: torch.view_as_real(
                torch.fft.ifft(torch.complex(x, y), norm="ortho")
            ),
            "product": lambda x, y: (
                (torch.complex(x, y) * torch.complex(y, x + 1).conj()).real
            ),
            "conj": lambda x, y: torch.view_as_real(
                torch.complex(x, y).conj() @ torch.complex(y, x).mT
            ),
            "polar": lambda x, y: (
                (torch.polar(x.abs() + 1, y) / (torch.complex(x, y).abs() + 1)).imag
            ),
            "rfft": lambda x, y: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=4000),
            "rfft_odd": lambda x, y: torch.fft.irfft(torch.fft.rfft(x[:, 1:]), n=3999),
            "stft": lambda x, y: torch.view_as_real(
                torch.fft.rfft(x.unfold(-1, 400, 160))
            ),
        },
        inputs=rows(2, 17, 4000),
        roundings=0,
    ),
}
