"""Operators, products, attention at real sizes, and random numbers: equal to the CPU's in float64."""

import math
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor
from torch.nn import functional

from smoke.checks.comparison import compare
from smoke.engine.check import Numbers, check, since
from smoke.engine.expect import Expect
from smoke.reference import reference
from smoke.reference.tables import (
    arithmetic,
    attention,
    images,
    indexing,
    layers,
    options,
    sizes,
)

STANDS_FOR = (
    "kernels that are wrong from a certain size on, in one dtype, or for strided input"
)
# Batch, rows, inner width, columns: odd sizes leave part of a tile, a long inner one is split.
SIZES = (
    (1, 512, 1024, 520),
    (1, 7, 4096, 1023),
    (16, 77, 64, 513),
    (3, 257, 1025, 130),
)
LARGE = ((1, 4096, 4096, 96), (1, 4096, 4096, 4096))
COUNT = 1_000_003
# Draws of a distribution, shifted and scaled to mean 0 and variance 1, and their fourth moment.
DRAWS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "uniform": (lambda x: (x.uniform_() - 0.5) * math.sqrt(12), 1.8),
    "normal": (lambda x: x.normal_(), 3.0),
    "exponential": (lambda x: x.exponential_() - 1, 9.0),
    "bernoulli": (lambda x: (x.bernoulli_(0.3) - 0.3) / math.sqrt(0.21), 0.37 / 0.21),
    "dropout": (lambda x: (functional.dropout(x.fill_(0.8), 0.2) - 0.8) / 0.4, 3.25),
}


@check("device.gradient", stands_for="the first backward fails")
def test_gradient(device: torch.device, numbers: Numbers) -> None:
    """Convolution, normalisation, pooling, interpolation and their gradients are right."""
    compare(device, numbers, images.CASES, "convolution")


@check("operators.arithmetic", stands_for=STANDS_FOR, full=True)
def test_arithmetic(device: torch.device, numbers: Numbers) -> None:
    """Functions of single elements, reductions of rows and of a million, and spectra are right."""
    compare(device, numbers, arithmetic.CASES)


@check("operators.indexing", stands_for=STANDS_FOR)
def test_indexing(device: torch.device, numbers: Numbers) -> None:
    """Gathering, scattering, sorting, choosing and moving of elements are right."""
    compare(device, numbers, indexing.CASES)


@check("operators.layers", stands_for=STANDS_FOR)
def test_layers(device: torch.device, numbers: Numbers) -> None:
    """Linear layers, normalisations, softmax, scans and losses are right, with their gradients."""
    compare(device, numbers, layers.CASES)


@check("operators.variants", stands_for=STANDS_FOR, full=True)
def test_variants(device: torch.device, numbers: Numbers) -> None:
    """Each operator is right for other layouts, sizes, signs and magnitudes, ties, NaN and none."""
    short = {name: attention.CASES[name] for name in ("causal", "cross", "padded")}
    compare(device, numbers, images.CASES, "convolution", made=True)
    compare(device, numbers, arithmetic.CASES | indexing.CASES, made=True)
    compare(device, numbers, layers.CASES | short, made=True)


def has_known_kernels(expect: Expect) -> str:
    """Apply to all but IPEX's torch, whose kernels of rare operators nobody could try."""
    if expect.accelerator == "xpu" and expect.release("torch") < (2, 5):
        return "IPEX's kernels of rare operators are not known"
    return ""


@check("operators.options", stands_for=STANDS_FOR, when=has_known_kernels, full=True)
def test_options(device: torch.device, numbers: Numbers) -> None:
    """Strided outputs, large integers, packed sequences and dropout's gradients are right."""
    compare(device, numbers, options.CASES, made=True)


@check(
    "operators.sizes",
    stands_for=STANDS_FOR,
    when=since("torch", 2, 5),
    full=True,
)
def test_sizes(device: torch.device, numbers: Numbers) -> None:
    """Functions are right at the sizes of models, from 65,536 rows and four million columns on."""
    compare(device, numbers, sizes.CASES, "convolution", made=True)


@check("fused.attention", stands_for="attention in half precision is wrong")
def test_attention(device: torch.device, numbers: Numbers) -> None:
    """Causal attention over 257 words is right in each dtype and layout, with its gradients."""
    compare(device, numbers, {"causal": attention.CASES["causal"]})


@check("attention.shapes", stands_for=STANDS_FOR, full=True)
def test_shapes(device: torch.device, numbers: Numbers) -> None:
    """Attention is right at models' head sizes, lengths, masks, and by each of its back ends."""
    cases = dict(attention.CASES)
    causal = cases["causal"]
    with suppress(ImportError):  # before torch 2.3: only the one that torch chooses
        from torch.nn.attention import SDPBackend, sdpa_kernel

        for name, backend in SDPBackend.__members__.items():
            if name != "ERROR":
                run = sdpa_kernel(backend)(causal.run)
                cases[name] = causal._replace(run=run, called=name)
    compare(device, numbers, cases)


@check("matrix.product", stands_for=STANDS_FOR, full=True)
def test_product(device: torch.device, numbers: Numbers) -> None:
    """Products of up to 4096 x 4096 and batches of them are right in each dtype and layout."""
    for dtype in reference.dtypes(device):
        large: tuple[tuple[int, ...], ...] = LARGE
        if device.type == "cpu":  # the largest takes seconds, half precision minutes
            large = LARGE[:1] if dtype == torch.float32 else ()
        for size in (*SIZES, *large):
            reference.prove_product(device, numbers, dtype, size)
        # Sums of positive products grow beyond what half types could add up.
        if device.type != "cpu" and dtype != torch.float32:
            reference.prove_product(
                device, numbers, dtype, (1, 9, 65536, 64), positive=True
            )


@check("random.draws", stands_for="training whose noise is not random", full=True)
def test_draws(device: torch.device, numbers: Numbers) -> None:
    """Random numbers, dropout, multinomial draws and permutations have their distributions."""
    torch.manual_seed(7)
    shares: dict[str, float] = {}  # of the deviation that chance allows
    for dtype in reference.dtypes(device):
        for name, (draw, fourth) in DRAWS.items():
            title = f"{name} {reference.short(dtype)}"
            numbers.step(title)
            drawn = draw(torch.empty(COUNT, dtype=dtype, device=device))
            x = drawn.cpu().double()
            moments = {
                "mean": x,
                "variance": x**2 - 1,
                "fourth moment": x**4 - fourth,
                "neighbours": x[1:] * x[:-1],
                "halves": x[500_002:] * x[:500_001],
            }
            for moment, terms in moments.items():
                # Six standard errors, beyond which a right generator is once in 500 million; and
                # each draw is rounded, or cut off, to a unit of the type.
                allowed = 6 * float(terms.std()) / math.sqrt(COUNT)
                allowed += 4 * fourth * torch.finfo(dtype).eps
                shares[f"{title} {moment}"] = abs(float(terms.mean())) / allowed
    numbers.step("multinomial, randperm")
    numbers.within("impossible draws", _impossible(device), 0)
    shares["multinomial"] = _multinomial(device)
    for name, share in shares.items():
        if not share <= 1:
            numbers.within(name, share, 1)
    # Without a limit: that another generator deviates more is no loss.
    worst = max(shares.values())
    numbers.record("largest deviation, share of what chance allows", worst, "1")


def _multinomial(device: torch.device) -> float:
    """Return the deviation of weighted draws, as a share of what chance allows."""
    weights = torch.tensor([0.5, 0.0, 0.125, 0.375])
    drawn = torch.multinomial(weights.to(device), COUNT, replacement=True).cpu()
    often = torch.bincount(drawn, minlength=4).double() / COUNT
    allowed = 6 * 0.5 / math.sqrt(COUNT)
    return float((often - weights).abs().max()) / allowed


def _impossible(device: torch.device) -> int:
    """Return how often something was drawn that can't be, or left out that must be."""
    rows = torch.eye(1000).flip(1)
    chosen = torch.multinomial(rows.to(device), 1).cpu()
    wrong = int((chosen[:, 0] != rows.argmax(1)).sum())
    equal = torch.ones(1000, device=device)
    all_of_1000 = torch.multinomial(equal, 1000).cpu()
    wrong += 1000 - len(all_of_1000.unique())
    permutation = torch.randperm(70_001, device=device).cpu()
    wrong += 70_001 - len(permutation.unique())
    if device.type != "mps":  # whose numbers beyond 32 bits nobody has seen
        large = torch.randint(6 * 10**9, (1000,), device=device).cpu()
        wrong += int(large.max() < 5 * 10**9)
    return wrong


@check("random.seed", stands_for="runs that a seed does not repeat", full=True)
def test_seed(device: torch.device, numbers: Numbers) -> None:
    """A seed gives the same numbers again, another seed others; state can be saved and restored."""
    generator = torch.Generator(device)

    def draw() -> Tensor:
        return torch.randn(10_001, device=device, generator=generator).cpu()

    generator.manual_seed(2)
    other = draw()
    generator.manual_seed(1)
    first = draw()
    state = generator.get_state()
    second = draw()
    generator.set_state(state)
    differing = float((draw() != second).sum())
    numbers.within("after the state was restored", differing, 0)
    generator.manual_seed(1)
    differing = float((draw() != first).sum())
    numbers.within("drawn again", differing, 0)
    for name, drawn in (("another seed", other), ("the next draw", second)):
        equal = float((first == drawn).sum())
        numbers.within(f"equal to {name}", equal, 100)
