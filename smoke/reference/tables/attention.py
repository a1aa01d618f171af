"""Attention at models' head sizes, lengths and masks."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference import reference
from smoke.reference.operators import Case, drawn

# What of a place among the queries and one among the keys is allowed, or added to their score.
MASKS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "causal": lambda query, key: query >= key,
    "boolean": lambda query, key: (7 * query + 3 * key) % 5 > 0,
    "additive": lambda query, key: (7 * query + 3 * key) % 5 / 2,
    "padded": lambda query, key: (key + 0 * query < 128) * -65504.0,
}
# Heads, groups of keys, queries, keys, the size of a head, and the mask.
Shape = tuple[int, int, int, int, int, str]
SHAPES: dict[str, Shape] = {
    "causal": (2, 2, 257, 257, 64, "causal"),
    "plain": (2, 2, 256, 256, 128, ""),
    "grouped heads": (8, 2, 200, 200, 64, "boolean"),
    "cross": (2, 2, 129, 77, 40, "additive"),
    "one word": (4, 4, 1, 300, 128, ""),
    "one of many words": (2, 2, 1, 1100, 64, ""),
    "causal of few": (2, 2, 3, 300, 64, "causal"),
    "padded": (2, 2, 37, 300, 64, "padded"),
    "heads of 80": (2, 2, 65, 1025, 80, ""),
    "heads of 96": (2, 2, 130, 130, 96, "causal"),
    "heads of 160": (1, 1, 257, 77, 160, ""),
    "heads of 256": (1, 1, 129, 129, 256, "causal"),
    "long": (1, 1, 2048, 2048, 128, "causal"),
}


def attend(mask: str, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention, of float64 by its definition."""
    bias = torch.zeros(1, device=query.device, dtype=query.dtype)
    if mask:
        of_query = torch.arange(query.shape[2], device=query.device)
        of_key = torch.arange(key.shape[2], device=key.device)
        bias = MASKS[mask](of_query[:, None], of_key)
        if bias.is_floating_point():
            bias = bias.to(query.dtype)
    repeats = query.shape[1] // key.shape[1]
    if query.dtype == torch.float64:
        key = key.repeat_interleave(repeats, 1)
        value = value.repeat_interleave(repeats, 1)
        return reference.attention(query, key, value, bias)
    if mask == "causal":
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    if not mask:
        bias = None
    # With torch 2.5 came enable_gqa, which XPU's first kernels did not take.
    grouped = "enable_gqa" in (F.scaled_dot_product_attention.__doc__ or "")
    if repeats > 1 and grouped and query.device.type != "xpu":
        return F.scaled_dot_product_attention(query, key, value, bias, enable_gqa=True)
    key = key.repeat_interleave(repeats, 1)
    value = value.repeat_interleave(repeats, 1)
    return F.scaled_dot_product_attention(query, key, value, bias)


def _case(shape: Shape) -> Case:
    heads, groups, queries, keys, size, mask = shape
    pair = (1, groups, keys, size)
    inputs = drawn((1, heads, queries, size), pair, pair)
    # Scores of up to 8 are rounded, which moves their weights by 8 u. Kernels read 16 or 64 bytes at
    # once and do not all see that an input begins between (pytorch/pytorch#183484, #179800).
    return Case(partial(attend, mask), inputs, roundings=16, spared="all offset")


CASES = {name: _case(shape) for name, shape in SHAPES.items()}
