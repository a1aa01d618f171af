"""Variants of an operator's inputs, made from the plain ones: each row of the tables gets them all.

Every variant of the values meets another size and layout in each dtype: their product, sampled.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from smoke.reference import reference

Inputs = list[Tensor]
LAYOUTS = ("transposed", "offset", "channels-last", "mixed", "expanded")
# Rows and columns, cut from larger inputs: one, odd ones, just beyond powers of two.
SIZES = ((5, 129), (2, 1025), (33, 17), (1, 65), (3, 2049), (257, 5))


class Variant(NamedTuple):
    """Inputs on the CPU in the dtype under test, and what of the results is compared.

    Attributes:
        name: What the report calls it, after the name of its case.
        inputs: The inputs.
        layouts: Those in which they are given, see `placed`.
        gradient: Whether gradients are compared.
        judged: "all"; "values", not integers; "finite", neither them nor what is NaN.
        made: Whether an operator may refuse them.
        limit: The largest error.
    """

    name: str
    inputs: Inputs
    layouts: tuple[str, ...] = ("contiguous",)
    gradient: bool = True
    judged: str = "all"
    made: bool = True
    limit: float = 0.0


class Values(NamedTuple):
    """A change of floating inputs, and what of the results is compared then."""

    change: Callable[[Tensor], Tensor]
    gradient: bool
    judged: str


def _negative(x: Tensor) -> Tensor:
    if x.is_floating_point():
        return -x.abs()
    return x - x.amax() // 2


def _large(x: Tensor) -> Tensor:
    """Return numbers beyond the logarithm of the largest, but not its square root."""
    if not x.is_floating_point():
        return x
    factor = 8 if x.dtype == torch.float16 else 40
    return x * factor


def _scattered(x: Tensor, values: tuple[float, ...]) -> Tensor:
    """Return a copy with values in a place of each row, another in each."""
    if not x.is_floating_point():
        return x
    x = x.clone()
    for number, row in enumerate(x.view(-1, x.shape[-1])):
        place = number * 7 % len(row)
        row[place] = values[number % len(values)]
    return x


_with_nan = partial(_scattered, values=(math.nan,))
_with_infinity = partial(_scattered, values=(math.inf, -math.inf))


# Where ties are, the order of indices is undefined, and so are some gradients.
VALUES = {
    "positive": Values(torch.abs, gradient=True, judged="all"),
    "negative": Values(_negative, gradient=True, judged="all"),
    "large": Values(_large, gradient=True, judged="all"),
    "ties": Values(torch.round, gradient=False, judged="values"),
    "NaN": Values(_with_nan, gradient=False, judged="values"),
    "infinity": Values(_with_infinity, gradient=False, judged="finite"),
}


def of(inputs: Inputs, turn: int, spared: str) -> Iterator[Variant]:
    """Yield the variants of some inputs, on the CPU.

    Args:
        inputs: The plain ones, which are cut as far as all are of one shape.
        turn: Any number: chooses which values meet which size and layout.
        spared: Words: layouts and values without a defined result; "all" is each of the values;
            "uncut" keeps the size; "empty" leaves out nothing; "plain" is the inputs as they are
            only, "gradient" without their gradients.
    """
    unfit = spared.split()
    if "plain" in unfit:
        gradient = "gradient" not in unfit
        yield Variant("", inputs, gradient=gradient)
        return
    if len(inputs) == 1:
        unfit.append("mixed")
    layouts = [layout for layout in LAYOUTS if layout not in unfit]
    # Every other one, and the rest in the next type.
    for number in range(turn % 2, len(layouts), 2):
        cut = _cut(inputs, number + turn, unfit)
        yield _laid_out(cut, layouts[number])
    if "all" not in unfit:
        yield from _changed(inputs, turn, unfit, layouts[:-1])
    is_half = inputs[0].dtype in (torch.float16, torch.bfloat16)
    if _are_alike(inputs) and "empty" not in unfit and not is_half:
        without_rows = [x[:0] for x in inputs]
        without_columns = [x[..., :0] for x in inputs]
        yield Variant(" without rows", without_rows)
        yield Variant(" without columns", without_columns)


def _changed(
    inputs: Inputs, turn: int, unfit: list[str], layouts: list[str]
) -> Iterator[Variant]:
    # Every other one, and the rest in the next type.
    for number, (name, values) in enumerate(VALUES.items(), start=turn):
        if name in unfit or number % 2:
            continue
        given = _cut(inputs, number, unfit)
        if name == "positive" and _are_alike(inputs):
            # What a type cannot add up shows in long sums.
            given = [x[..., :3, :] for x in inputs]
        changed = [values.change(x) for x in given]
        layout = layouts[number % len(layouts)]
        yield Variant(f" {name}", changed, (layout,), values.gradient, values.judged)


def _laid_out(inputs: Inputs, layout: str) -> Variant:
    if layout != "expanded":
        return Variant("", inputs, (layout,))
    # Equal rows have no order, and no gradient each.
    repeated = [reference.laid_out(x, layout).clone() for x in inputs]
    return Variant("", repeated, (layout,), gradient=False, judged="values")


def _are_alike(inputs: Inputs) -> bool:
    shape = inputs[0].shape
    return len(shape) > 1 and all(x.shape == shape for x in inputs)


def _cut(inputs: Inputs, number: int, unfit: list[str]) -> Inputs:
    rows, columns = SIZES[number % len(SIZES)]
    if _are_alike(inputs) and "uncut" not in unfit:
        return [x[..., :rows, :columns].contiguous() for x in inputs]
    lengths = {len(x) for x in inputs}
    if len(lengths) == 1:
        return [x[:5] for x in inputs]
    return inputs


def placed(x: Tensor, layout: str, number: int) -> Tensor:
    """Return an input in its layout; of mixed ones every second is in another than the first."""
    if layout == "mixed" and number % 2:
        layout = "channels-last" if x.dim() > 2 else "transposed"
    return reference.laid_out(x, layout)


def deviations(
    result: Tensor, right: Tensor, dtype: torch.dtype, judged: str
) -> Tensor:
    """Return how far elements are off, relative to the largest value; what overflows is not.

    Raises:
        ValueError: The shapes differ.
    """
    if result.shape != right.shape:
        raise ValueError(f"shape {tuple(result.shape)}, expected {tuple(right.shape)}")
    result = result.cpu()
    if right.is_floating_point():
        result = result.double()
    if torch.equal(result, right):  # as unchanged inputs are, and what has no elements
        return torch.zeros(right.shape if right.numel() else 1)
    if right.is_floating_point():
        return _of_floating(result, right, dtype, judged)
    if judged == "all":
        return torch.where(result != right, math.inf, 0.0)
    return torch.zeros(right.shape)


def _of_floating(
    result: Tensor, right: Tensor, dtype: torch.dtype, judged: str
) -> Tensor:
    # What is below the smallest normal number of float16 has few bits, or becomes zero.
    least = torch.finfo(dtype).tiny / reference.LIMITS[dtype]
    most = torch.finfo(dtype).max / 8
    largest = float(right.abs().max())
    if largest <= most:  # nothing is infinite or NaN
        off = (result - right).abs_().div_(max(largest, least))
        return off.nan_to_num_(math.inf)
    sizes = right.abs()
    plain = right.isfinite() & (sizes <= most)
    largest = float(sizes.where(plain, 0.0).max())
    off = (result - right).abs().nan_to_num(math.inf) / max(largest, least)
    wrong = right.isinf() & (result != right)
    if judged != "finite":
        wrong |= right.isnan() & ~result.isnan()
    return off.where(plain, 0.0).masked_fill(wrong, math.inf)
