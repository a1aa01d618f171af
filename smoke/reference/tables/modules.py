"""Recurrent and attention modules, dropout and optimizers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference.operators import (
    Case,
    cases,
    drawn,
    dropped,
    packed,
    rows,
    scaled,
    stepped,
    trained,
)

# Optimizers and their options, each with those of the ways to step that it has.
STEPS: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("SGD", {"momentum": 0.9, "nesterov": True}, ("foreach", "fused", "scaled")),
    ("SGD", {"maximize": True, "weight_decay": 0.1}, ("foreach", "fused")),
    ("Adam", {"betas": (0.5, 0.8), "eps": 1e-3}, ("foreach", "fused", "scaled")),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}, ("foreach", "fused")),
    ("AdamW", {"amsgrad": True, "weight_decay": 0.3}, ("foreach", "fused", "scaled")),
    ("AdamW", {"maximize": True}, ("foreach", "fused")),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.2}, ("foreach",)),
    ("RAdam", {"weight_decay": 0.2}, ("foreach",)),
    ("Adagrad", {}, ("foreach", "fused")),
    ("RMSprop", {"momentum": 0.9, "centered": True}, ("foreach",)),
    ("Adafactor", {}, ("foreach",)),
)
WAYS: dict[str, dict[str, Any]] = {
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "scaled": {"fused": True, "scale": 64.0},
}


def optimizers() -> dict[str, Callable[..., Any]]:
    """Return three steps of each optimizer, over lists and fused; float64 takes them singly."""
    steps: dict[str, Callable[..., Any]] = {}
    for kind, options, ways in STEPS:
        for way in ways:
            name = f"{kind} {' '.join(options)} {way}"
            steps[name] = partial(stepped, kind, lr=0.1, **options, **WAYS[way])
    return steps


CASES: dict[str, Case] = {
    # Sequences of other lengths, packed, are as each by itself.
    **cases(
        {
            "LSTM": lambda x: packed(nn.LSTM(12, 8, 2, bidirectional=True), x),
            "LSTM 2": lambda x: packed(nn.LSTM(12, 8, proj_size=5), x),
            "GRU": lambda x: packed(nn.GRU(12, 8, 2, bidirectional=True), x),
            "RNN": lambda x: packed(nn.RNN(12, 8), x),
        },
        inputs=rows(1, 9, 5, 12),
        roundings=16,
        spared="plain",
    ),
    # A module's results, gradients, those of frozen inputs, and evaluation.
    **cases(
        {
            "LSTM": lambda x: trained(nn.LSTM(12, 8, 2, bidirectional=True), x),
            "LSTM 2": lambda x: trained(nn.LSTM(12, 8, proj_size=5), x),
            "GRU": lambda x: trained(nn.GRU(12, 8, 2, bidirectional=True), x),
            "RNN": lambda x: trained(nn.RNN(12, 8, 2, nonlinearity="relu"), x),
            "TransformerEncoderLayer": lambda x: trained(
                nn.TransformerEncoderLayer(
                    12, 3, 20, 0.0, "gelu", norm_first=True, batch_first=True
                ),
                x,
            ),
            "BatchNorm1d": lambda x: trained(nn.BatchNorm1d(4, momentum=None), x),
            "InstanceNorm1d": lambda x: trained(
                nn.InstanceNorm1d(4, affine=True, track_running_stats=True), x
            ),
            "weight_norm, Linear": lambda x: trained(
                nn.utils.parametrizations.weight_norm(nn.Linear(12, 7)), x
            ),
        },
        inputs=rows(1, 9, 4, 12),
        roundings=48,
        spared="plain",
    ),
    **cases(
        {
            "MultiheadAttention": lambda x, y: trained(
                nn.MultiheadAttention(12, 3, batch_first=True), x, y, y
            ),
            "MultiheadAttention 2": lambda x, y: trained(
                nn.MultiheadAttention(12, 2, add_bias_kv=True), x, y, y
            ),
            "TransformerDecoderLayer": lambda x, y: trained(
                nn.TransformerDecoderLayer(12, 3, 20, 0.0), x, y
            ),
        },
        inputs=rows(2, 9, 4, 12),
        roundings=128,
        spared="plain",
    ),
    # Of what is random, but linear: the backward uses the forward's mask and scale.
    **cases(
        {
            "dropout": lambda x: dropped(lambda x: F.dropout(x, 0.4), x),
            "dropout 2": lambda x: dropped(lambda x: F.dropout(x.mT, 0.3), x),
            "native_dropout": lambda x: dropped(
                lambda x: torch.native_dropout(x, 0.4, train=True)[0], x
            ),
            "scaled_dot_product_attention": lambda x: dropped(
                lambda x: F.scaled_dot_product_attention(
                    x[None, None].detach(),
                    x[None, None].detach(),
                    x[None, None],
                    dropout_p=0.5,
                    is_causal=True,
                ),
                x,
            ),
        },
        inputs=rows(1, 33, 130),
        roundings=16,
        spared="plain",
    ),
    # Keys for all of a batch, and a mask for each of it.
    **cases(
        {
            "scaled_dot_product_attention": lambda x: (
                F.scaled_dot_product_attention(
                    x.view(3, 1, 11, 130),
                    x[:11].expand(3, 1, 11, 130),
                    x[11:22].expand(3, 1, 11, 130),
                ),
                F.scaled_dot_product_attention(
                    x.view(3, 1, 11, 130),
                    x.view(3, 1, 11, 130),
                    x.view(3, 1, 11, 130),
                    attn_mask=(x[:3, :11] > -0.5)[:, None, None],
                ),
            ),
        },
        inputs=rows(1, 33, 130),
        roundings=16,
        spared="plain",
    ),
    # A scale for each row, in fp8.
    **cases(
        {
            "scaled": scaled,
            "products of bytes": lambda x, y: torch._int_mm(
                *(
                    each.detach().abs().clamp(0, 3).mul(32).round().to(torch.int8)
                    for each in (x, y.mT)
                )
            ),
        },
        inputs=drawn((32, 64), (48, 64)),
        roundings=0,
        float32=0.01,
        spared="plain",
        since="scaled_mm",
    ),
    **cases(
        optimizers(),
        inputs=rows(4, 4, 70),
        roundings=0,
        spared="plain",
    ),
}
