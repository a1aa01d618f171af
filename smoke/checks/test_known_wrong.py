"""Numbers that some pairs of torch and driver compute wrongly, at the sizes where they show.

envs/catalog/known-wrong.toml lists the pairs with their sources. The device at hand decides: each
check repeats one class of them in a second or two, whatever its driver.
"""

import torch
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
WIDTHS = [2**power + more for power in range(8, 16) for more in (-1, 0, 1)] + [1_400]
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
        there, places = mask.to(device), mask.nonzero()
        for _ in range(2):
            wrong += not torch.equal(there.nonzero().cpu(), places)
            wrong += not torch.equal(values.to(device)[there].cpu(), values[mask])
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
        places = values.argsort(-1)
        there = values.to(device)
        found = {
            "topk": there.topk(LARGEST, -1),
            "sort": there.sort(-1),
        }
        right = {
            "topk": (values.sort(-1, descending=True)[0], places.flip(-1)),
            "sort": (values.sort(-1)[0], places),
        }
        for name, pair in found.items():
            expected = [part[:, : pair[0].shape[-1]] for part in right[name]]
            wrong = sum(
                int((part.cpu() != exact).sum())
                for part, exact in zip(pair, expected, strict=True)
            )
            numbers.within(f"{name} of {length}, wrong elements", wrong, 0)
        distinct = (there % 1_000).unique().cpu()
        wrong = int(not torch.equal(distinct, (values % 1_000).unique()))
        numbers.within(f"unique of {length}, wrong results", wrong, 0)


@check(
    "known-wrong.softmax", stands_for="a softmax that is wrong from 2**k + 1 columns on"
)
def test_softmax(device: torch.device, numbers: Numbers) -> None:
    """Softmax and its gradient are right in float32 for rows of 2**k - 1, 2**k and 2**k + 1."""
    limit = reference.LIMITS[torch.float32]
    for width in WIDTHS:
        numbers.step(f"softmax of {width}")
        rows, weights = noise(3, width), noise(3, width, seed=1)
        results = []
        for x in (rows.to(device), rows.double()):
            leaf = x.requires_grad_()
            result = leaf.softmax(-1)
            (slope,) = torch.autograd.grad(result, leaf, weights.to(result))
            results.append((result.detach(), slope))
        found, exact = results
        worst = max(map(reference.error, found, exact))
        numbers.within(f"softmax of {width}", worst, limit)


@check("known-wrong.half", stands_for="linear layers of zeros, or of not a number")
def test_half(device: torch.device, numbers: Numbers) -> None:
    """Products and linear layers are right in half types at the sizes of a model's layers."""
    half_types = [each for each in reference.dtypes(device) if each != torch.float32]
    for rows, inner, columns in PRODUCTS:
        drawn = (
            noise(rows, inner),
            noise(columns, inner, seed=1),
            noise(columns, seed=2),
        )
        for dtype in half_types:
            name = f"{short(dtype)} {rows} x {inner} x {columns}"
            numbers.step(name)
            left, right, bias = (part.to(dtype) for part in drawn)
            exact = left.double() @ right.double().mT
            a, b = left.to(device), right.to(device)
            limit = reference.LIMITS[dtype]
            numbers.within(name, reference.error(a @ b.mT, exact), limit)
            found = functional.linear(a, b, bias.to(device))
            error = reference.error(found, exact + bias.double())
            numbers.within(f"linear {name}", error, limit)


@check("known-wrong.chain", stands_for="sums that are not a number after empty_cache()")
def test_chain(device: torch.device, numbers: Numbers) -> None:
    """Rows are added at their places after a long chain of operations and an emptied cache."""
    start, places = noise(4_096, 64), torch.arange(4_096) % 257
    chains = []
    for x, steps in ((start.to(device), CHAIN), (start.double(), SETTLED)):
        total = x
        for _ in range(steps):
            total = (total * 0.5 + x).tanh()
        backend = devices.backend(x.device)
        if hasattr(backend, "empty_cache"):
            backend.empty_cache()
        sums = x.new_zeros(257, 64)
        chains.append(sums.index_add_(0, places.to(x.device), total))
    error = reference.error(*chains)
    numbers.within("index_add_ after a chain", error, reference.LIMITS[torch.float32])
