"""Options that torch's own samples leave out: strided outputs, large integers, kept inputs."""

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    at,
    cases,
    filled_parts,
    rows,
    whole,
)
from smoke.reference.reference import noise


def taken(numbers: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return large integers at places that they name."""
    return (
        numbers.gather(1, numbers % numbers.shape[1]),
        numbers.take(numbers % numbers.numel()),
        numbers.index_select(0, numbers[0] % len(numbers)),
    )


def added(numbers: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return sums of large integers at places that they name."""
    rows = numbers[0] % len(numbers)
    parts = numbers[:1].expand(numbers.shape[1], -1)
    return (
        numbers.scatter_add(1, numbers % numbers.shape[1], numbers),
        numbers.index_add(0, rows, parts),
        numbers.index_add(0, rows, parts, alpha=3),
    )


CASES: dict[str, Case] = {
    # Reductions.
    **cases(
        {
            "amax, amin": lambda x: (x.amax((0, 1)), x.amin((0, 1), keepdim=True)),
        },
        inputs=rows(1, 33, 130),
        spared="large infinity empty expanded",
    ),
    # Written into strided memory, and into a part of it.
    **cases(
        {
            "topk": lambda x: torch.topk(
                x.detach(),
                3,
                out=(
                    x.new_zeros(len(x), 6)[:, ::2],
                    torch.zeros(len(x), 6, dtype=torch.long, device=x.device)[:, ::2],
                ),
            ),
            "sort": lambda x: torch.sort(
                x.detach(),
                0,
                out=(
                    x.new_zeros(x.shape[::-1]).T,
                    torch.zeros(x.shape[::-1], dtype=torch.long, device=x.device).T,
                ),
            ),
            "max": lambda x: torch.max(
                x.detach(),
                1,
                out=(
                    x.new_zeros(2 * len(x))[::2],
                    torch.zeros(2 * len(x), dtype=torch.long, device=x.device)[::2],
                ),
            ),
            "mm": lambda x: torch.mm(
                x.detach(), x.detach().mT, out=x.new_zeros(len(x), 2 * len(x))[:, ::2]
            ),
            "sum, add": lambda x: (
                torch.sum(x.detach(), 1, out=x.new_zeros(2 * len(x))[::2]),
                torch.add(x.detach(), 2, out=x.new_zeros(x.shape[::-1]).T),
            ),
            "cat": lambda x: torch.cat(
                [x.detach(), x.detach()], 1, out=x.new_zeros(2 * x.shape[1], len(x)).T
            ),
            "gather, argsort": lambda x: torch.gather(
                x.detach(), 1, x.detach().argsort(1), out=x.new_zeros(x.shape[::-1]).T
            ),
            "parts filled in place": filled_parts,
        },
        inputs=rows(1, 33, 130),
        spared="ties large NaN infinity empty expanded",
    ),
    # The mean is large beside the deviation.
    **cases(
        {
            "layer_norm, instance_norm, group_norm": lambda x: (
                F.layer_norm(x, x.shape[-1:]),
                F.instance_norm(x[None]),
                F.group_norm(x[None], 1),
            ),
            "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
            "var, std, var_mean": lambda x: (
                x.var(-1),
                x.std(0),
                torch.var_mean(x, 0),
                torch.std_mean(x),
            ),
        },
        inputs=lambda: (noise(33, 130).mul(8).round() / 8 + 1449,),
        roundings=0,
        float32=0.001,
        spared="ties large positive negative NaN infinity empty expanded",
    ),
    # Scores of up to 8 are rounded; values have fewer channels than keys.
    **cases(
        {
            "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(
                x[None, None, :, :64], x[None, None, :, 64:128], x[None, None, :, :40]
            ),
        },
        inputs=rows(1, 33, 130),
        roundings=16,
        spared="uncut ties large NaN infinity empty expanded",
    ),
    # Each value of fp8, and halves between them.
    **cases(
        {
            "mul, clamp": lambda x: [
                x.detach().mul(128).clamp(-448, 448).to(kind).float()
                for kind in (torch.float8_e4m3fn, torch.float8_e5m2)
            ],
        },
        inputs=rows(1, 33, 130),
        spared="ties large NaN infinity empty",
    ),
    **cases(
        {
            "cdist": torch.cdist,
        },
        inputs=rows(2, 33, 130),
        spared="large ties NaN infinity empty expanded",
    ),
    # Integers of 64 bits, beyond what float32 and float64 hold.
    **cases(
        {
            "unique": at(
                2**40, lambda n: n.unique(return_inverse=True, return_counts=True)
            ),
            "sort": at(2**55, lambda n: (n.sort(-1)[0], n.sort(0, descending=True)[0])),
            "max, min, amax": at(
                2**55,
                lambda n: (n.max(-1)[0], n.min(0)[0], n.amax(), n.amin(1), n.max()),
            ),
            "sum": at(2**50, lambda n: (n.sum(), n.sum(0), n.sum(1, keepdim=True))),
            "cumsum, cummax, cummin": at(
                2**50,
                lambda n: (n.cumsum(0), n.cumsum(1), n.cummax(1)[0], n.cummin(0)[0]),
            ),
            "fmod, remainder, div": at(
                2**55,
                lambda n: (
                    n // 7,
                    n % 7,
                    n.fmod(9),
                    n.remainder(-9),
                    n.div(3, rounding_mode="trunc"),
                ),
            ),
            "gather, take": at(2**55, taken),
            "scatter_add, index_add": at(2**50, added),
            "searchsorted, sort, bucketize": at(
                2**55,
                lambda n: (
                    torch.searchsorted(n.flatten().sort()[0], n),
                    torch.bucketize(
                        n,
                        torch.arange(2**55, 2**55 + 1000, 7, device=n.device),
                        right=True,
                    ),
                ),
            ),
            "double": at(
                2**24, lambda n: (n.float(), n.double().long(), n.int().float())
            ),
            "sum, cumsum": lambda x: (
                (x > 300).sum(),
                (x > 300).sum(0),
                (x > 300).sum(1),
                (x > 300).cumsum(1),
                (x > 300).flatten().cumsum(0),
                (x > 300).long().cumsum(0),
            ),
            "cumsum, sum, cumprod": lambda x: (
                (x > 300).cumsum(0, dtype=torch.int32),
                (x > 300).sum(dtype=torch.int32),
                (x > 900).cumprod(0),
                (x >= 0).prod(),
            ),
            "sum, cumsum, max": lambda x: (
                (x % 251).to(torch.uint8).sum(),
                (x % 251).to(torch.uint8).sum(0),
                (x % 251).to(torch.uint8).cumsum(1),
                (x % 251).to(torch.uint8).max(1)[0],
            ),
            "sum, cumsum, abs": lambda x: (
                (x % 251 - 125).to(torch.int8).sum(1),
                (x % 251 - 125).to(torch.int8).cumsum(1),
                (x % 251 - 125).to(torch.int8).abs(),
                (x % 251 - 125).to(torch.int8) // 3,
            ),
            "embedding, embedding_bag, index_select": lambda x: (
                F.embedding((x % len(x)).int(), x.float()),
                F.embedding_bag((x % len(x)).int(), x.float(), mode="sum"),
                x.index_select(1, (x[0] % 7).int()),
            ),
        },
        inputs=whole(1000, 30, 70),
        spared="all empty expanded",
    ),
    # Spectra, with their options; the input of an inverse is kept.
    **cases(
        {
            "irfft": lambda x: torch.fft.irfft(
                torch.view_as_complex(x.unflatten(-1, (-1, 2)))[..., :31] + 0.0, n=60
            ),
            "irfft 2": lambda x: torch.fft.irfft(
                torch.view_as_complex(x.unflatten(-1, (-1, 2)))
            ),
            "irfft2": lambda x: torch.fft.irfft2(
                torch.view_as_complex(x.unflatten(-1, (-1, 2)))
            ),
            "istft, stft, hann_window": lambda x: torch.istft(
                torch.stft(
                    x.detach()[0],
                    16,
                    4,
                    window=torch.hann_window(16, device=x.device, dtype=x.dtype),
                    return_complex=True,
                ),
                16,
                4,
                window=torch.hann_window(16, device=x.device, dtype=x.dtype),
                length=64,
            ),
        },
        inputs=rows(1, 6, 10, 64),
        roundings=0,
        spared="plain",
    ),
}
