"""Numbers that some pairs of torch and driver compute wrongly, at the sizes where they show.

envs/catalog/known-wrong.toml lists the pairs with their sources. The device at hand decides: each
check repeats one class of them in a second or two, whatever its driver.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from smoke.device import devices
from smoke.engine.check import Numbers, check
from smoke.reference import reference
from smoke.reference.reference import noise, short

MASKS = 200  # of 200 masks 119 were wrong where this was reported
LENGTHS = (100, 600, 4_095, 4_097, 65_537)
# Around the widths of a work group and of its radix, and above what 16 bits count.
ORDERED = (1_025, 4_095, 4_096, 4_097, 16_385, 65_536, 65_537)
LARGEST = 50
# Rows, inner width, columns: from 512 x 512 on the products were wrong, 64 x 64 were right.
PRODUCTS = ((512, 512, 512), (40, 2048, 8192))
CHAIN = 300
# Each step at least halves what is left of its start, so float64 does not change after 60 of them.
SETTLED = 60


@check("known-wrong.masks", stands_for="a mask that keeps 305 of 600 rows")
def test_masks(device: torch.device, numbers: Numbers) -> None:
    """Boolean masks and nonzero find each element, in many masks, the second time as the first."""
    wrong = 0
    for number in range(MASKS):
        values = noise(LENGTHS[number % len(LENGTHS)], seed=number)
        mask = values > 0.5
        numbers.step(f"mask {number} of {len(mask)}")
        there = mask.to(device)
        places = mask.nonzero()
        for _ in range(2):
            if not torch.equal(there.nonzero().cpu(), places):
                wrong += 1
            if not torch.equal(values.to(device)[there].cpu(), values[mask]):
                wrong += 1
    numbers.within("masks that lose elements", wrong, 0)


@check(
    "known-wrong.order", stands_for="topk, sort and unique that return other elements"
)
def test_order(device: torch.device, numbers: Numbers) -> None:
    """Topk, sort and unique return each value and its place, around powers of two and beyond."""
    for length in ORDERED:
        numbers.step(f"order of {length}")
        # Whole numbers in random order: none is rounded in float32, and none comes twice.
        values = noise(2, length, seed=length).argsort(-1).float()
        ordered, places = values.sort(-1)
        largest = ordered.flip(-1)[:, :LARGEST]
        places_of_largest = places.flip(-1)[:, :LARGEST]
        there = values.to(device)
        for name, result, right in (
            ("topk", there.topk(LARGEST, -1), (largest, places_of_largest)),
            ("sort", there.sort(-1), (ordered, places)),
        ):
            wrong = 0
            for part, exact in zip(result, right, strict=True):
                wrong += int((part.cpu() != exact).sum())
            numbers.within(f"{name} of {length}, wrong elements", wrong, 0)
        distinct = (there % 1_000).unique().cpu()
        is_right = torch.equal(distinct, (values % 1_000).unique())
        numbers.within(f"unique of {length}, wrong results", int(not is_right), 0)


@check(
    "known-wrong.softmax", stands_for="a softmax that is wrong from 2**k + 1 columns on"
)
def test_softmax(device: torch.device, numbers: Numbers) -> None:
    """Softmax and its gradient are right in float32 for rows of 2**k - 1, 2**k and 2**k + 1."""
    limit = reference.LIMITS[torch.float32]
    for width in _widths():
        numbers.step(f"softmax of {width}")
        rows = noise(3, width)
        weights = noise(3, width, seed=1)
        result, gradient = _softmax(rows.to(device), weights)
        exact, exact_gradient = _softmax(rows.double(), weights)
        error = reference.error(result, exact)
        error_of_gradient = reference.error(gradient, exact_gradient)
        worst = max(error, error_of_gradient)
        numbers.within(f"softmax of {width}", worst, limit)


def _widths() -> Iterator[int]:
    for power in range(8, 16):
        yield 2**power - 1
        yield 2**power
        yield 2**power + 1
    yield 1_400


def _softmax(rows: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the softmax of rows, and the gradient of its weighted sum."""
    leaf = rows.detach().requires_grad_()
    result = leaf.softmax(-1)
    (gradient,) = torch.autograd.grad(result, leaf, weights.to(result))
    return result.detach(), gradient


@check("known-wrong.half", stands_for="linear layers of zeros, or of not a number")
def test_half(device: torch.device, numbers: Numbers) -> None:
    """Products and linear layers are right in half types at the sizes of a model's layers."""
    _, *half_types = reference.dtypes(device)
    for rows, inner, columns in PRODUCTS:
        x = noise(rows, inner)
        weights = noise(columns, inner, seed=1)
        bias = noise(columns, seed=2)
        for dtype in half_types:
            name = f"{short(dtype)} {rows} x {inner} x {columns}"
            numbers.step(name)
            limit = reference.LIMITS[dtype]
            a = x.to(dtype)
            b = weights.to(dtype)
            c = bias.to(dtype)
            exact = a.double() @ b.double().mT
            a = a.to(device)
            b = b.to(device)
            error = reference.error(a @ b.mT, exact)
            numbers.within(name, error, limit)
            result = functional.linear(a, b, c.to(device))
            error = reference.error(result, exact + c.double())
            numbers.within(f"linear {name}", error, limit)


@check("known-wrong.chain", stands_for="sums that are not a number after empty_cache()")
def test_chain(device: torch.device, numbers: Numbers) -> None:
    """Rows are added at their places after a long chain of operations and an emptied cache."""
    start = noise(4_096, 64)
    sums = _sums_after(CHAIN, start.to(device))
    exact = _sums_after(SETTLED, start.double())
    error = reference.error(sums, exact)
    numbers.within("index_add_ after a chain", error, reference.LIMITS[torch.float32])


def _sums_after(steps: int, start: Tensor) -> Tensor:
    """Return sums of the rows after a chain of operations and an emptied cache."""
    total = start
    for _ in range(steps):
        total = (total * 0.5 + start).tanh()
    backend = devices.backend(start.device)
    if hasattr(backend, "empty_cache"):
        backend.empty_cache()
    places = torch.arange(4_096) % 257
    sums = start.new_zeros(257, 64)
    return sums.index_add_(0, places.to(start.device), total)
