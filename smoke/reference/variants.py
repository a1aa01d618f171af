"""Variants of an operator's inputs, made from the plain ones: each row of the tables gets them all.

Every variant of the values meets another size and layout in each dtype: their product, sampled.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from smoke.reference import reference

LAYOUTS = ("transposed", "offset", "channels-last", "mixed", "expanded")
# Rows and columns, cut from larger inputs: one, odd ones, just beyond powers of two.
SIZES = ((5, 129), (2, 1025), (33, 17), (1, 65), (3, 2049), (257, 5))


class Variant(NamedTuple):
    """Inputs on the CPU in the dtype under test, and what of the results is compared."""

    name: str
    inputs: list[torch.Tensor]
    layouts: tuple[str, ...]
    gradient: bool = True
    judged: str = (
        "all"  # but not: "values" integers; "finite" neither them nor what is NaN
    )
    made: bool = True  # which an operator may not take
    limit: float = 0.0


def _placed(*values: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that writes values to a place of each row, another in each."""

    def place(x: torch.Tensor) -> torch.Tensor:
        if not x.is_floating_point():
            return x
        for row, part in enumerate((x := x.clone()).view(-1, x.shape[-1])):
            part[row * 7 % len(part)] = values[row % len(values)]
        return x

    return place


def _negative(x: torch.Tensor) -> torch.Tensor:
    return -x.abs() if x.is_floating_point() else x - x.amax() // 2


def _large(x: torch.Tensor) -> torch.Tensor:
    """Return numbers beyond the logarithm of the largest, but not its square root."""
    return x * (8 if x.dtype == torch.float16 else 40) if x.is_floating_point() else x


# Where ties are, the order of indices is undefined, and so are some gradients.
VALUES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], bool, str]] = {
    "positive": (torch.abs, True, "all"),
    "negative": (_negative, True, "all"),
    "large": (_large, True, "all"),
    "ties": (torch.round, False, "values"),
    "NaN": (_placed(math.nan), False, "values"),
    "infinity": (_placed(math.inf, -math.inf), False, "finite"),
}


def of(inputs: list[torch.Tensor], turn: int, spared: str = "") -> Iterator[Variant]:
    """Yield the variants of some inputs, on the CPU, which are cut as far as all are of one shape.

    ``turn``, any number, chooses which values meet which size and layout; ``spared`` are words: of
    layouts and values without a defined result, "all" is each of the values; "uncut" keeps
    the size, "empty" leaves out nothing, "plain" is the inputs as they are only.
    """
    shape = inputs[0].shape
    alike = len(shape) > 1 and all(x.shape == shape for x in inputs)

    unfit = spared.split() + ["mixed"] * (len(inputs) == 1)

    def cut(number: int) -> list[torch.Tensor]:
        rows, columns = SIZES[number % len(SIZES)]
        if alike and "uncut" not in unfit:
            return [x[..., :rows, :columns].contiguous() for x in inputs]
        return [x[:5] for x in inputs] if len({len(x) for x in inputs}) == 1 else inputs

    layouts = [each for each in LAYOUTS if each not in unfit]
    if "plain" in unfit:
        yield Variant("", inputs, ("contiguous",), "gradient" not in unfit)
        return
    # Every other one, and the rest in the next type.
    for number, layout in list(enumerate(layouts))[turn % 2 :: 2]:
        given = cut(number + turn)
        gradient = layout != "expanded"  # whose equal rows have no order
        given = (
            given
            if gradient
            else [reference.laid_out(x, layout).clone() for x in given]
        )
        yield Variant("", given, (layout,), gradient, "all" if gradient else "values")
    for number, (name, (change, gradient, judged)) in enumerate(VALUES.items()):
        # What a type cannot add up shows in long sums.
        plain = (
            [x[..., :3, :] for x in inputs]
            if alike and not number
            else cut(number + turn)
        )
        if name not in unfit and "all" not in unfit:
            layout = layouts[(number + turn) % (len(layouts) - 1)]
            yield Variant(
                f" {name}", [change(x) for x in plain], (layout,), gradient, judged
            )
    if (
        alike
        and "empty" not in unfit
        and inputs[0].dtype not in (torch.float16, torch.bfloat16)
    ):
        yield Variant(" without rows", [x[:0] for x in inputs], ("contiguous",))
        yield Variant(" without columns", [x[..., :0] for x in inputs], ("contiguous",))


def placed(x: torch.Tensor, layout: str, number: int) -> torch.Tensor:
    """Return an input in its layout; of mixed ones every second is in another than the first."""
    if layout == "mixed":
        layout = (
            ("channels-last" if x.dim() > 2 else "transposed")
            if number % 2
            else "contiguous"
        )
    return reference.laid_out(x, layout)


def deviations(
    found: torch.Tensor, right: torch.Tensor, dtype: torch.dtype, judged: str = "all"
) -> torch.Tensor:
    """Return how far elements are off, relative to the largest value; what overflows is not.

    Raises:
        ValueError: The shapes differ.
    """
    if found.shape != right.shape:
        raise ValueError(f"shape {tuple(found.shape)}, expected {tuple(right.shape)}")
    found = found.cpu().double() if right.is_floating_point() else found.cpu()
    if torch.equal(found, right):  # as unchanged inputs are, and what has no elements
        return torch.zeros(right.shape if right.numel() else 1)
    if not right.is_floating_point():
        return torch.where((found != right) & (judged == "all"), math.inf, 0.0)
    infinite = right.isinf()
    plain = right.isfinite() & (right.abs() <= torch.finfo(dtype).max / 8)
    wrong = (infinite & (found != right)) | (
        right.isnan() & ~found.isnan() & (judged != "finite")
    )
    # What is below the smallest normal number of float16 has few bits, or becomes zero.
    least = torch.finfo(dtype).tiny / reference.LIMITS[dtype]
    largest = max(float(right.abs().where(plain, 0.0).max()), least)
    off = (found - right).abs().nan_to_num(math.inf) / largest
    return off.where(plain, 0.0).masked_fill(wrong, math.inf)
