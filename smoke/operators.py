"""Operators that programs use, each with inputs of a real size, for comparison with the CPU.

A case runs on the device in the dtype under test, and on the CPU in float64 with the same values.
Inputs are made so that rounding does not decide: values to be ordered are distinct, nothing is near
a pole. Of each case `variants` makes others. ``operators.json`` has the cases, as expressions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke import reference
from smoke.reference import noise

if TYPE_CHECKING:
    Inputs = Callable[[], tuple[torch.Tensor, ...]]


def rows(count: int = 1, *shape: int) -> Inputs:
    """Return noise, several times; 4,097 columns end inside of a block of each reduction kernel."""
    return lambda: tuple(noise(*(shape or (33, 4097)), seed=seed) for seed in range(count))


def whole(high: int, *shape: int) -> Inputs:
    """Return non-negative integers below a limit."""
    return lambda: (torch.randint(high, shape, generator=torch.Generator().manual_seed(4)),)


def distinct() -> tuple[torch.Tensor, ...]:
    """Return rows of distinct numbers that float16 and bfloat16 both hold, in random order."""
    return (noise(513, 256).argsort(-1).sub(128).float(),)


def indexed() -> tuple[torch.Tensor, ...]:
    """Return rows, indices into them, and values of the indices' shape."""
    return noise(33, 4097), *whole(4097, 33, 2000)(), noise(33, 2000, seed=2)


class Case(NamedTuple):
    """One operator: a function, and what makes its inputs on the CPU.

    The function returns a tensor or several; the gradients of the first are compared, too, where it
    has any. Floating inputs are cast to the dtype under test.
    """

    run: Callable[..., Any]
    inputs: Inputs = rows()
    # How many results, one after the other, some device rounds to half precision on the way to one
    # element: more than 8 where it adds up in that type; 0 for a case of float32 only.
    roundings: int = 8
    float32: float = reference.LIMITS[torch.float32]  # the limit in that type
    optional: bool = False  # whether torch may have no kernel for it on the device
    spared: str = ""  # values and layouts of `variants` that have no defined result, or "all"


def _attention(shape: tuple[int, int, int, int, int], mask: str = "none") -> Case:
    """Return a call of attention; the mask: causal, last, boolean, additive, none."""
    heads, groups, length, keys, size = shape

    def run(query: torch.Tensor, *pair: torch.Tensor) -> torch.Tensor:
        first, second = (torch.arange(count, device=query.device) for count in (length, keys))
        places = (7 * first[:, None] + 3 * second) % 5
        bias = {"boolean": places > 0, "additive": (places / 2).to(query.dtype),
                "last": second <= first[:, None] + keys - length}.get(mask)  # fmt: skip
        key, value = (x.repeat_interleave(heads // groups, 1) for x in pair)
        if query.dtype == torch.float64:
            bias = torch.zeros(1) if mask == "none" else bias
            return reference.attention(query, key, value, bias)
        # With torch 2.5 came enable_gqa, which XPU's first kernels did not take.
        itself = "enable_gqa" in (F.scaled_dot_product_attention.__doc__ or "")
        if heads != groups and itself and query.device.type != "xpu":
            return F.scaled_dot_product_attention(query, *pair, bias, enable_gqa=True)
        causal = mask == "causal"
        return F.scaled_dot_product_attention(query, key, value, bias, is_causal=causal)

    # Scores of up to 8 are rounded, which moves their weights by 8 u.
    return Case(run, lambda: (noise(1, heads, length, size), noise(1, groups, keys, size, seed=1),
                              noise(1, groups, keys, size, seed=2)), 16, spared="all")  # fmt: skip


def images(groups: int) -> Inputs:
    """Return images of 32 channels, and the weights of a convolution in groups."""
    return lambda: (noise(2, 32, 25, 29), noise(32, 32 // groups, 3, 3, seed=1))


def in_place(x: torch.Tensor, name: str, *more: Any) -> torch.Tensor:  # noqa: ANN401
    """Call a method that writes to a copy of a tensor in the same layout; return the copy."""
    found: torch.Tensor = getattr(x.detach().clone(), name)(*more)
    return found


def written(x: torch.Tensor) -> torch.Tensor:
    """Write to overlapping views of a tensor, one after the other."""
    x[:, ::2].mul_(2)
    x.mT[3:9].add_(x.mT[:6].clone())
    x.diagonal().zero_()
    return x


def statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return a normalised batch, and its mean and variance as evaluation will use them."""
    mean, var = x.detach().new_zeros(x.shape[1]), x.detach().new_ones(x.shape[1])
    return F.batch_norm(x, mean, var, training=True, momentum=0.9), mean, var


def _table(groups: list[dict[str, Any]]) -> dict[str, Case]:
    """Return the cases of a table; each group of rows has its inputs and their names."""
    names, cases = {**globals(), "torch": torch, "math": math}, {}
    for group in groups:
        inputs = eval(group.get("inputs", "rows()"), names)  # noqa: S307 - the suite's own file
        options = {key: group[key] for key in ("roundings", "float32", "spared") if key in group}
        if not options.get("roundings", 8):  # transforms, matrices
            options["spared"] = options.get("spared", "") + " NaN infinity"
        for name, words in group["rows"].items() if hasattr(F, group.get("since", "gelu")) else ():
            run = eval(f"lambda {group.get('given', 'x')}: ({words})", names)  # noqa: S307
            cases[name] = Case(run, inputs, **options)
    return cases


_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
ARITHMETIC, INDEXING, IMAGES, LAYERS = map(_table, _TABLES.values())
ATTENTION = {
    "causal": _attention((2, 2, 257, 257, 64), "causal"),
    "plain": _attention((2, 2, 256, 256, 128)),
    "grouped heads": _attention((8, 2, 200, 200, 64), "boolean"),
    "cross": _attention((2, 2, 129, 77, 40), "additive"),  # as a UNet's
    "one word": _attention((4, 4, 1, 300, 128)),  # a new one, against a cache
    "causal of few": _attention((2, 2, 3, 300, 64), "causal"),  # the first words see the first keys
    "last words": _attention((2, 2, 3, 300, 64), "last"),
    "long": _attention((1, 1, 2048, 2048, 64)),
    "long causal": _attention((1, 1, 2048, 2048, 128), "causal"),
}
