"""Operators that programs use, each with inputs of a real size, for comparison with the CPU.

A case runs on the device in the dtype under test, and on the CPU in float64 with the same values.
Inputs are made so that rounding does not decide: values to be ordered are distinct, nothing is near
a pole. Of each case `variants` makes others. `smoke.reference.tables` has the cases.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from smoke.reference import reference
from smoke.reference.reference import noise

Inputs = Callable[[], tuple[Tensor, ...]]


def drawn(*shapes: tuple[int, ...]) -> Inputs:
    """Make noise of several shapes: an image, a filter and a bias."""

    def make() -> tuple[Tensor, ...]:
        return tuple(noise(*shape, seed=seed) for seed, shape in enumerate(shapes))

    return make


def rows(count: int) -> Inputs:
    """Make rows of noise; 4,097 columns end inside of a block of each reduction kernel."""
    return drawn(*[(33, 4097)] * count)


def whole(high: int, *shape: int) -> Inputs:
    """Make non-negative integers below a limit."""
    return lambda: (_integers(high, *shape),)


def with_indices(shape: tuple[int, ...], high: int, *places: int) -> Inputs:
    """Make noise of a shape, and integers below a limit, of another shape, to choose of it."""
    return lambda: (noise(*shape), _integers(high, *places))


def _integers(high: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.randint(high, shape, generator=generator)


def distinct() -> tuple[Tensor, ...]:
    """Make rows of 0, -1, 2, -3 … in random order: their magnitudes are distinct, too.

    float16 and bfloat16 both hold them. Which of equal numbers comes first is not defined.
    """
    places = noise(513, 256).argsort(-1).float()
    return (places.where(places % 2 == 0, -places),)


def indexed() -> tuple[Tensor, ...]:
    """Make rows, indices into them, and values of the indices' shape."""
    return noise(33, 4097), _integers(4097, 33, 2000), noise(33, 2000, seed=2)


class Case(NamedTuple):
    """One operator: a function, and what makes its inputs on the CPU.

    Attributes:
        run: Makes a tensor or several, of which the gradients are compared, too, where they have
            any. Floating inputs are cast to the dtype under test.
        inputs: Makes the inputs.
        roundings: How many results, one after the other, some device rounds to half precision on
            the way to one element: more than 8 where it adds up in that type; 0 for a case of
            float32 only.
        float32: The limit in that type.
        called: What of `offered` it is, besides the functions that it calls.
        spared: Values and layouts of `variants` that have no defined result, or "all".
    """

    run: Callable[..., Any]
    inputs: Inputs = rows(1)
    roundings: int = 8
    float32: float = reference.LIMITS[torch.float32]
    called: str = ""
    spared: str = ""


def cases(
    *functions: Callable[..., Any],
    inputs: Inputs = rows(1),  # noqa: B008 - a function that makes them
    spared: str = "",
    **limits: Any,
) -> dict[str, Case]:
    """Return the cases of functions that share inputs and limits, by what the report calls them.

    Args:
        functions: What runs, named as the case.
        inputs: Makes the inputs of each.
        spared: Values and layouts of `variants` without a defined result.
        limits: ``roundings`` and ``float32``, see `Case`.
    """
    if limits.get("roundings") == 0:  # transforms, matrices
        spared += " NaN infinity"
    by_name = {}
    for function in functions:
        name = function.__name__.replace("_", " ").strip()
        by_name[name] = Case(function, inputs, spared=spared, **limits)
    return by_name


def in_place(x: Tensor, method: str, *arguments: Any) -> Tensor:
    """Call a method that writes to a copy of a tensor in the same layout; return the copy."""
    copy = x.detach().clone()
    getattr(copy, method)(*arguments)
    return copy


def flat(result: Any) -> list[Tensor]:
    """Return the tensors of a result, one after the other."""
    if isinstance(result, Tensor):
        return [result]
    tensors: list[Tensor] = []
    for part in result:
        tensors += flat(part)
    return tensors


@lru_cache(maxsize=8)  # of results of one size, in every type and layout
def _weights(count: int) -> Tensor:
    """Return weights of a sum: nearly equal ones would cancel in a normalisation's gradient."""
    return noise(count, seed=7).sign().add(0.25)


def slopes(results: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Return the gradients of a weighted sum of results, none where they have none."""
    results = [x for x in results if x.requires_grad]
    if not (results and leaves):
        return []
    weights = []
    for x in results:
        weight = _weights(x.numel()).to(x, copy=True)
        weights.append(weight.view(x.shape))
    gradients = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def statistics(x: Tensor) -> tuple[Tensor, ...]:
    """Return a normalised batch, and its mean and variance as evaluation will use them."""
    mean = torch.zeros_like(x[0, :, 0, 0])
    variance = torch.ones_like(mean)
    normalised = F.batch_norm(x, mean, variance, training=True, momentum=0.9)
    return normalised, mean, variance
