"""Operators at real sizes: results and gradients equal the CPU's in float64; random numbers."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import torch
from torch.nn import functional

from smoke.device import devices
from smoke.device.capabilities import NO_FLOAT64
from smoke.engine.check import Numbers, check, since
from smoke.engine.expect import KNOWN, Expect
from smoke.engine.finding import fail
from smoke.reference import offered, operators, precision, reference, variants
from smoke.reference.operators import Case
from smoke.reference.tables import (
    arithmetic,
    images,
    indexing,
    large,
    layers,
    modules,
    options,
    sizes,
)
from smoke.reference.variants import Variant

STANDS_FOR = (
    "kernels that are wrong from a certain size on, in one dtype, or for strided input"
)
# How torch says that it has no kernel: for a type, for an input, of a back end, at all.
_REFUSED = re.compile(
    r"not (currently )?(implemented|supported|support)|doesn't support|Could not run|only support"
    r"|unsupported (data ?|input )type|low precision|float or double"
    r"|no (available|viable|execution|valid)|requires all|MAGMA|MKL|FFT|ComplexHalf"
    r"|to be Half, Float or Double|Half, Float or Double tensors",
    re.IGNORECASE,
)
_ROW = re.compile(r".*? (float32|float16|bfloat16)\b")
# Batch, rows, inner width, columns: odd sizes leave part of a tile, a long inner one is split.
SIZES = (
    (1, 512, 1024, 520),
    (1, 7, 4096, 1023),
    (16, 77, 64, 513),
    (3, 257, 1025, 130),
)
LARGE = ((1, 4096, 4096, 96), (1, 4096, 4096, 4096))
COUNT = 1_000_003
DECIDED = 0.1  # relative to the largest value: what moves to another place, not what is rounded
# Draws of a distribution, shifted and scaled to mean 0 and variance 1, and their fourth moment.
DRAWS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "uniform": (lambda x: (x.uniform_() - 0.5) * math.sqrt(12), 1.8),
    "normal": (lambda x: x.normal_(), 3.0),
    "exponential": (lambda x: x.exponential_() - 1, 9.0),
    "bernoulli": (lambda x: (x.bernoulli_(0.3) - 0.3) / math.sqrt(0.21), 0.37 / 0.21),
    "dropout": (lambda x: (functional.dropout(x.fill_(0.8), 0.2) - 0.8) / 0.4, 3.25),
}


@check("device.gradient", stands_for="the first backward fails")
def test_gradient(device: torch.device, numbers: Numbers) -> None:
    """Convolution, normalisation, pooling, interpolation and their gradients are right."""
    _compare(device, numbers, images.CASES, "convolution")


@check("operators.arithmetic", stands_for=STANDS_FOR, full=True)
def test_arithmetic(device: torch.device, numbers: Numbers) -> None:
    """Functions of single elements, reductions of rows and of a million, and spectra are right."""
    _compare(device, numbers, arithmetic.CASES)


@check("operators.indexing", stands_for=STANDS_FOR)
def test_indexing(device: torch.device, numbers: Numbers) -> None:
    """Gathering, scattering, sorting, choosing and moving of elements are right."""
    _compare(device, numbers, indexing.CASES)


@check("operators.layers", stands_for=STANDS_FOR)
def test_layers(device: torch.device, numbers: Numbers) -> None:
    """Linear layers, normalisations, softmax, scans and losses are right, with their gradients."""
    _compare(device, numbers, layers.CASES)


@check("operators.variants", stands_for=STANDS_FOR, full=True)
def test_variants(device: torch.device, numbers: Numbers) -> None:
    """Each operator is right for other layouts, sizes, signs and magnitudes, ties, NaN and none."""
    attention = {
        name: case for name, case in operators.ATTENTION.items() if "long" not in name
    }
    _compare(device, numbers, images.CASES, "convolution", made=True)
    _compare(device, numbers, arithmetic.CASES | indexing.CASES, made=True)
    _compare(device, numbers, layers.CASES | attention, made=True)


def known(expect: Expect) -> str:
    """Apply to all but IPEX's torch, whose kernels of rare operators nobody could try."""
    old = expect.accelerator == "xpu" and expect.release("torch") < (2, 5)
    return "IPEX's kernels of rare operators are not known" if old else ""


@check("operators.options", stands_for=STANDS_FOR, when=known, full=True)
def test_options(device: torch.device, numbers: Numbers) -> None:
    """Functions are right with other options than the usual, and for large integers."""
    _compare(device, numbers, options.CASES, made=True)


@check("operators.modules", stands_for=STANDS_FOR, when=known, full=True)
def test_modules(device: torch.device, numbers: Numbers) -> None:
    """Modules, convolutions, dropout and optimizers are right, with each of their options."""
    _compare(device, numbers, modules.CASES, "convolution", made=True)


@check("operators.large", stands_for=STANDS_FOR, when=known, full=True)
def test_large(device: torch.device, numbers: Numbers) -> None:
    """Operators are right from 65,536 rows and from four million columns on."""
    _compare(device, numbers, large.CASES, made=True)


@check(
    "operators.sizes",
    stands_for=STANDS_FOR,
    when=since("torch", 2, 5),
    full=True,
)
def test_sizes(device: torch.device, numbers: Numbers) -> None:
    """Convolutions, products, attention, norms and look-ups are right at the sizes of models."""
    _compare(device, numbers, sizes.CASES, "convolution", made=True)


@check("fused.attention", stands_for="attention in half precision is wrong")
def test_attention(device: torch.device, numbers: Numbers) -> None:
    """Causal attention over 257 words is right in each dtype and layout, with its gradients."""
    _compare(device, numbers, {"causal": operators.ATTENTION["causal"]})


@check("attention.shapes", stands_for=STANDS_FOR, full=True)
def test_shapes(device: torch.device, numbers: Numbers) -> None:
    """Attention is right at models' head sizes, lengths, masks, and by each of its back ends."""
    cases, case = dict(operators.ATTENTION), operators.ATTENTION["causal"]
    with suppress(ImportError):  # before torch 2.3: only the one that torch chooses
        from torch.nn.attention import SDPBackend, sdpa_kernel

        for name, backend in SDPBackend.__members__.items():
            if name != "ERROR":
                cases[name] = case._replace(
                    run=sdpa_kernel(backend)(case.run), called=name
                )
    _compare(device, numbers, cases)


@check("matrix.product", stands_for=STANDS_FOR, full=True)
def test_product(device: torch.device, numbers: Numbers) -> None:
    """Products of up to 4096 x 4096 and batches of them are right in each dtype and layout."""
    for dtype in reference.dtypes(device):
        # Half precision takes some CPUs minutes.
        large = LARGE if device.type != "cpu" or dtype == torch.float32 else ()
        for size in (*SIZES, *large):
            reference.prove_product(device, numbers, dtype, size)
        # Sums of positive products grow beyond what half types could add up.
        if device.type != "cpu" and dtype != torch.float32:
            reference.prove_product(
                device, numbers, dtype, (1, 9, 65536, 64), positive=True
            )


@check(
    "random.draws",
    stands_for="training whose noise is not random",
    full=True,
)
def test_draws(device: torch.device, numbers: Numbers) -> None:
    """Random numbers, dropout, multinomial draws and permutations have their distributions."""
    torch.manual_seed(7)
    shares: dict[str, float] = {}  # of the deviation that chance allows
    for dtype in reference.dtypes(device):
        for name, (draw, fourth) in DRAWS.items():
            numbers.step(title := f"{name} {reference.short(dtype)}")
            x = draw(torch.empty(COUNT, dtype=dtype, device=device)).cpu().double()
            moments = {"mean": x, "variance": x**2 - 1, "fourth moment": x**4 - fourth}
            moments |= {
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
    weights, rows = torch.tensor([0.5, 0.0, 0.125, 0.375]), torch.eye(1000).flip(1)
    drawn = torch.multinomial(weights.to(device), COUNT, replacement=True).cpu()
    second = torch.multinomial(weights.to(device).expand(COUNT, 4), 2).cpu()[:, 1]
    odds = weights / (1 - weights)
    for name, found, right in (
        ("multinomial", drawn, weights),
        ("second draw", second, weights * (odds.sum() - odds)),
    ):
        often = torch.bincount(found, minlength=4).double() / COUNT
        shares[name] = float((often - right).abs().max()) / (6 * 0.5 / math.sqrt(COUNT))
    wrong = int(
        (torch.multinomial(rows.to(device), 1).cpu()[:, 0] != rows.argmax(1)).sum()
    )
    wrong += (
        1000 - torch.multinomial(rows[:1].to(device) + 1, 1000).cpu().unique().numel()
    )
    wrong += 70_001 - torch.randperm(70_001, device=device).cpu().unique().numel()
    if device.type != "mps":  # whose numbers beyond 32 bits nobody has seen
        wrong += int(
            torch.randint(6 * 10**9, (1000,), device=device).cpu().max() < 5 * 10**9
        )
    numbers.within("impossible draws", wrong + int((drawn == 1).sum()), 0)
    for name, share in shares.items():
        if not share <= 1:
            numbers.within(name, share, 1)
    # Without a limit: that another generator deviates more is no loss.
    numbers.record(
        "largest deviation, share of what chance allows", max(shares.values()), "1"
    )


@check("random.seed", stands_for="runs that a seed does not repeat", full=True)
def test_seed(device: torch.device, numbers: Numbers) -> None:
    """A seed gives the same numbers again, another seed others; state can be saved and restored."""
    generator = torch.Generator(device)

    def draw() -> torch.Tensor:
        return torch.randn(10_001, device=device, generator=generator).cpu()

    first, again, other = (generator.manual_seed(seed) and draw() for seed in (1, 1, 2))
    state, follows = generator.get_state(), draw()
    generator.set_state(state)
    numbers.within("drawn again", float((first != again).sum()), 0)
    numbers.within("after the state was restored", float((follows != draw()).sum()), 0)
    for name, one in (("another seed", first), ("the next draw", follows)):
        numbers.within(f"equal to {name}", float((one == other).sum()), 100)


def _compare(
    device: torch.device,
    numbers: Numbers,
    cases: Mapping[str, Case],
    kind: str = "float32",
    *,
    made: bool = False,
) -> None:
    """Fail at the first error above its limit; record the worst of each dtype, as a share of it."""
    # On a busy host threads wait for each other, here for minutes: products and training use them.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    known = KNOWN.get(devices.kind(device), {})
    float32, wrong = (
        known.get(kind, known.get("float32", 0.0)),
        "|".join(known.get("cases", ())),
    )
    try:
        for turn, dtype in enumerate(reference.dtypes(device)):
            shares: list[float] = []
            for row, (name, case) in enumerate(cases.items()):
                if re.fullmatch(wrong, title := f"{name} {reference.short(dtype)}"):
                    numbers.record(f"known to fail: {title}", 1, "count")
                    continue
                limit = reference.LIMITS[dtype] * case.roundings / 8
                limit = max(float32, case.float32) if dtype == torch.float32 else limit
                inputs = [
                    x.to(dtype) if x.is_floating_point() else x for x in case.inputs()
                ]
                tried = [Variant("", inputs, ("contiguous", "strided"), made=False)]
                for each in (
                    variants.of(inputs, row + turn, case.spared) if made else tried
                ):
                    named = each._replace(name=title + each.name, limit=limit)
                    shares += shares_of(device, numbers, case, named) if limit else []
            _conclude(numbers, reference.short(dtype), shares)
    finally:
        torch.set_num_threads(threads)


def _conclude(numbers: Numbers, dtype: str, shares: list[float]) -> None:
    """Record the worst of a type; fail where nothing was compared in it."""
    numbers.record(f"{dtype}, compared", len(shares), "count")
    if not shares and not numbers.unknown:
        fail(
            "operator-lost",
            f"nothing could be compared in {dtype}",
            [f"{name}: {why}" for name, why in numbers.missing.items()],
        )
    numbers.within(f"{dtype}, share of the limit", max(shares, default=0.0), 1.0)


def shares_of(
    device: torch.device, numbers: Numbers, case: Case, each: Variant
) -> list[float]:
    """Return the errors as shares of their limits; fail the check if one is above 1."""
    dtype = next((x.dtype for x in each.inputs if x.is_floating_point()), torch.float32)
    # Before torch 2.3 gradients on the CPU write beyond their memory for some transposed inputs.
    old = device.type == "cpu" and torch.float16 not in reference.dtypes(device)
    each = each._replace(gradient=each.gradient and not (old and each.made))
    shares: list[float] = []
    right = _right(case, each)
    judged = each.judged if right and right[0].is_floating_point() else "all"

    def off(found: list[torch.Tensor]) -> list[torch.Tensor]:
        pairs = zip(found, right, strict=True)
        return [
            variants.deviations(some, exact, dtype, judged) for some, exact in pairs
        ]

    for layout in each.layouts if right else ():
        numbers.step(title := f"{each.name} {layout}")
        try:
            there = [
                variants.placed(x.to(device), layout, n)
                for n, x in enumerate(each.inputs)
            ]
            found = off(_evaluate(case, there, gradient=each.gradient, made=each.made))
        except (RuntimeError, TypeError) as error:  # NotImplementedError is one
            if each.inputs[0].numel():
                _excuse(error, numbers, case, each, device)
            continue
        worst, limit = max(float(part.max()) for part in found), each.limit
        if (
            worst > limit and each.made
        ):  # a rounding of large values changes more than others do
            bits = precision.BITS[dtype]
            # Two samples: one of few numbers may be right by chance.
            near = [
                off(_right(case, each, precision.rounded(n))) for n in (bits - 1, bits)
            ]
            worst = max(
                _worst(limit, *parts) for parts in zip(found, *near, strict=True)
            )
        if not worst <= limit:
            numbers.within(title, worst, limit)
        shares.append(worst / limit)
    return shares


def _worst(limit: float, off: torch.Tensor, *roundings: torch.Tensor) -> float:
    """Return the error of one result, in units in which what two roundings change is the limit.

    Where they decide, as of the place of a maximum, they may decide for as many elements only.
    """
    near = torch.stack(roundings)
    if (changed := float(near.max())) > DECIDED:
        return limit * float((off > limit).sum() / (2 * (near > limit / 2).sum()))
    return float(off.max()) * limit / max(limit, 2 * changed)


def _right(case: Case, each: Variant, rounding: Any = None) -> list[torch.Tensor]:
    """Return the results in float64, none where the operator does not take such inputs."""
    wide = [x.double() if x.is_floating_point() else x for x in each.inputs]
    try:
        with rounding or nullcontext():  # of what is computed, not of the inputs
            return _evaluate(case, wide, gradient=each.gradient, made=each.made)
    except (
        RuntimeError,
        IndexError,
        ValueError,
        ArithmeticError,
        AttributeError,
        TypeError,
    ):
        if each.made:
            return []
        raise


def _excuse(
    error: Exception,
    numbers: Numbers,
    case: Case,
    each: Variant,
    device: torch.device,
) -> None:
    """Record why a row could not be compared; fail where the device has to offer it.

    Raises:
        CheckFailed: ``operator-lost``: torch offers it on this kind of device.
        Exception: The error itself, where it is no refusal.
    """
    text, kind = str(error), devices.kind(device)
    row = _ROW.match(each.name)
    title = row[0] if row else each.name
    if devices.has_float64(device) is not True and NO_FLOAT64.search(text):
        numbers.missing[f"not offered: {title}"] = "the device has no float64"
        return
    if not isinstance(error, NotImplementedError) and not _REFUSED.search(text):
        raise error
    names = _functions(case, each) | set(re.findall(r"\w+", title))
    names = {case.called} if case.called else names
    dtype = row[1] if row else "float32"
    if why := offered.reason(names, dtype, kind, text):
        numbers.missing[f"not offered: {title}"] = why
    elif offered.is_listed(kind):
        fail(
            "operator-lost",
            f"{title} is refused: {text.splitlines()[0][:160]}",
            [f"{type(error).__name__}: {line}" for line in text.splitlines()[:5]],
        )
    else:
        numbers.unknown.append(title)


def _functions(case: Case, each: Variant) -> set[str]:
    """Return the names of the functions that a case calls, as the CPU computes it in float64."""
    wide = [x.double() if x.is_floating_point() else x for x in each.inputs]
    with offered.Calls() as calls, suppress(Exception):
        _evaluate(case, wide, gradient=each.gradient, made=False)
    return {offered.plain(name) for name in calls.names}


def _evaluate(
    case: Case, inputs: list[torch.Tensor], *, gradient: bool, made: bool
) -> list[torch.Tensor]:
    """Return the results of a case, and the gradients of the first where it has any.

    If ``made``, those for each input alone, too, and the inputs, which nothing may change.
    """
    floats = [n for n, x in enumerate(inputs) if x.is_floating_point() and gradient]
    results: list[torch.Tensor] = []
    for chosen in (floats, *([n] for n in floats if made and len(floats) > 1)):
        given = [x.detach().requires_grad_(n in chosen) for n, x in enumerate(inputs)]
        found = operators.flat(case.run(*given))
        results += [*found, *operators.slopes(found, [given[n] for n in chosen])]
    return [each.detach() for each in (*results, *(inputs if made else ()))]
