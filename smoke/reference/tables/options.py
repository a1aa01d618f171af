"""What torch's own samples leave out: strided outputs, large integers, packed sequences."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it
from torch.nn.utils import rnn

from smoke.reference.operators import cases, distinct, drawn, whole
from smoke.reference.reference import noise

MATRIX = drawn((33, 130))


# Written into strided memory, and into a part of it.


def largest_of_all(x):
    yield x.amax((0, 1))
    yield x.amin((0, 1), keepdim=True)


def ordered_into_strides(x):
    x = x.detach()
    rows, columns = x.shape
    values = x.new_zeros(rows, 6)
    places = torch.zeros(rows, 6, dtype=torch.long, device=x.device)
    yield from torch.topk(x, 3, out=(values[:, ::2], places[:, ::2]))
    yield torch.gather(x, 1, x.argsort(1), out=x.new_zeros(columns, rows).T)


def computed_into_strides(x):
    x = x.detach()
    rows, columns = x.shape
    yield torch.mm(x, x.mT, out=x.new_zeros(rows, 2 * rows)[:, ::2])
    yield torch.sum(x, 1, out=x.new_zeros(2 * rows)[::2])
    yield torch.add(x, 2, out=x.new_zeros(columns, rows).T)
    yield torch.cat([x, x], 1, out=x.new_zeros(2 * columns, rows).T)


def parts_changed_in_place(x):
    """The end of the last row is written to."""
    x = x.detach()
    for method, *arguments in (
        ("fill_", 7.0),
        ("add_", 1),
        ("copy_", x[:1, 1:]),
        ("masked_fill_", x[-1:, 1:] > 0, 2.0),
    ):
        copy = x.clone()
        getattr(copy[-1:, 1:], method)(*arguments)
        yield copy


def far_from_zero():
    """Make multiples of an eighth, which no type rounds, around 1449."""
    return (noise(33, 130).mul(8).round() / 8 + 1449,)


def norms_far_from_zero(x):
    """The mean is large beside the deviation."""
    yield F.layer_norm(x, x.shape[-1:])
    yield F.group_norm(x[None], 1)
    yield F.batch_norm(x, None, None, training=True)
    yield x.var(-1)
    yield x.std(0)


def fp8(x):
    """Each value of fp8, and halves between them."""
    values = x.detach().mul(128).clamp(-448, 448)
    yield values.to(torch.float8_e4m3fn).float()
    yield values.to(torch.float8_e5m2).float()


def inverse_spectrum(x):
    """The input of an inverse is kept."""
    bins = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    yield torch.fft.irfft(bins)
    yield torch.fft.irfft(bins[..., :31] + 0.0, n=60)


# Integers beyond what float32 and float64 hold.


def sorted_integers(x):
    numbers = x + 2**55
    yield numbers.sort(-1)[0]
    yield numbers.amax(1)
    yield numbers.min(0)[0]
    yield from (x + 2**40).unique(return_inverse=True, return_counts=True)
    yield torch.searchsorted(numbers.flatten().sort()[0], numbers)


def totals_of_integers(x):
    numbers = x + 2**50
    yield numbers.sum()
    yield numbers.sum(0)
    yield numbers.cumsum(1)
    yield numbers.scatter_add(1, numbers % numbers.shape[1], numbers)
    places = numbers[0] % len(numbers)
    rows = numbers[:1].expand(len(places), -1)
    yield numbers.index_add(0, places, rows)


def divided_integers(x):
    numbers = x + 2**55
    yield numbers // 7
    yield numbers.fmod(9)
    yield numbers.remainder(-9)
    yield numbers.div(3, rounding_mode="trunc")


def totals_of_truths(x):
    truths = x > 300
    yield truths.sum(1)
    yield truths.cumsum(1)
    yield truths.flatten().cumsum(0)
    yield truths.cumsum(0, dtype=torch.int32)


def totals_of_bytes(x):
    unsigned = x % 251
    for numbers in (unsigned.to(torch.uint8), (unsigned - 125).to(torch.int8)):
        yield numbers.sum(0)
        yield numbers.cumsum(1)
        yield numbers.max(1)[0]


def places_of_32_bits(x):
    places = (x % len(x)).int()
    yield F.embedding(places, x.float())
    yield F.embedding_bag(places, x.float(), mode="sum")
    yield x.index_select(1, (x[0] % 7).int())


def packed(module, x):
    """Return outputs for sequences of other lengths: packed, or in float64 one by one."""
    for number, weight in enumerate(module.parameters()):
        # Which each type holds.
        values = noise(*weight.shape, seed=number).mul(16).round()
        weight.data.copy_(values.clamp(-32, 32) / 64)
    module = module.to(x)
    lengths = [9, 6, 3, 7]
    if x.dtype == torch.float64:
        outputs = []
        for place, length in enumerate(lengths):
            output, _ = module(x[:length, place])
            outputs.append(output)
        return rnn.pad_sequence(outputs)
    counts = torch.tensor(lengths)
    together = rnn.pack_padded_sequence(x, counts, enforce_sorted=False)
    output, _ = module(together)
    padded, _ = rnn.pad_packed_sequence(output)
    return padded


def packed_lstm(x):
    return packed(nn.LSTM(12, 8, 2, bidirectional=True), x)


def packed_gru(x):
    return packed(nn.GRU(12, 8), x)


# Of what is random, but linear: the backward uses the forward's mask and scale.


def same_mask(run, x):
    """Return a quotient that is 1 where backward draws what the function drew."""
    for _ in range(2):
        given = x.detach().requires_grad_()
        result = run(given)
    (slope,) = torch.autograd.grad(result, given, result.detach())
    return (slope * given).sum() / result.square().sum()


def dropout(x):
    return same_mask(lambda given: F.dropout(given.mT, 0.3), x)


def attention_with_dropout(x):
    rows = x[None, None].detach()

    def attend(value):
        value = value[None, None]
        return F.scaled_dot_product_attention(rows, rows, value, dropout_p=0.5)

    return same_mask(attend, x)


CASES = {
    **cases(largest_of_all, inputs=MATRIX, spared="large infinity empty expanded"),
    **cases(
        ordered_into_strides,
        inputs=distinct,
        spared="ties large NaN infinity empty expanded",
    ),
    **cases(
        computed_into_strides,
        parts_changed_in_place,
        inputs=MATRIX,
        spared="ties large NaN infinity empty expanded",
    ),
    **cases(
        norms_far_from_zero,
        inputs=far_from_zero,
        roundings=0,
        float32=0.001,
        spared="ties large positive negative empty expanded",
    ),
    **cases(fp8, inputs=MATRIX, spared="ties large NaN infinity empty"),
    **cases(
        torch.cdist,
        inputs=drawn((33, 130), (33, 130)),
        spared="large ties NaN infinity empty expanded",
    ),
    **cases(
        sorted_integers,
        totals_of_integers,
        divided_integers,
        totals_of_truths,
        totals_of_bytes,
        places_of_32_bits,
        inputs=whole(1000, 30, 70),
        spared="all empty expanded",
    ),
    **cases(inverse_spectrum, inputs=drawn((6, 10, 64)), roundings=0, spared="plain"),
    # cuDNN multiplies in TF32.
    **cases(
        packed_lstm,
        packed_gru,
        inputs=drawn((9, 4, 12)),
        roundings=16,
        float32=0.005,
        spared="plain",
    ),
    **cases(
        dropout,
        attention_with_dropout,
        inputs=MATRIX,
        roundings=16,
        spared="plain",
    ),
}
