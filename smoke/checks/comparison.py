"""Comparison of operators on the device with the CPU in float64, and what a device may refuse."""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor

from smoke.device import devices
from smoke.device.capabilities import NO_FLOAT64
from smoke.engine.check import Numbers
from smoke.engine.expect import KNOWN
from smoke.engine.finding import fail
from smoke.reference import offered, operators, precision, reference, variants
from smoke.reference.operators import Case
from smoke.reference.variants import Variant

# How torch says that it has no kernel: for a type, for an input, of a back end, at all.
_REFUSED = re.compile(
    r"not (currently )?(implemented|supported|support)|doesn't support|Could not run|only support"
    r"|unsupported (data ?|input )type|low precision|float or double"
    r"|no (available|viable|execution|valid)|requires all|MAGMA|MKL|FFT|ComplexHalf"
    r"|to be Half, Float or Double|Half, Float or Double tensors",
    re.IGNORECASE,
)
_ROW = re.compile(r".*? (float32|float16|bfloat16)\b")
DECIDED = 0.1  # relative to the largest value: what moves to another place, not what is rounded


def compare(
    device: torch.device,
    numbers: Numbers,
    cases: Mapping[str, Case],
    kind: str = "float32",
    *,
    made: bool = False,
) -> None:
    """Fail at the first error above its limit; record the worst of each dtype, as a share of it.

    Args:
        device: The device.
        numbers: Where the worst is recorded.
        cases: What is compared.
        kind: The entry of ``known.json`` that has the error of float32.
        made: Whether the variants of each case are compared, and not its plain inputs.
    """
    # On a busy host threads wait for each other, here for minutes: products and training use them.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for turn, dtype in enumerate(reference.dtypes(device)):
            shares: list[float] = []
            for row, (name, case) in enumerate(cases.items()):
                title = f"{name} {reference.short(dtype)}"
                compared = _variants(case, dtype, row + turn, made=made)
                if compared and _is_known_to_fail(device, numbers, title):
                    continue
                limit = _limit(device, case, dtype, kind)
                for variant in compared:
                    named = variant._replace(name=title + variant.name, limit=limit)
                    named = _without_known_layouts(device, numbers, named)
                    if made and not _has_safe_gradients(device):
                        named = named._replace(gradient=False)
                    shares += shares_of(device, numbers, case, named)
            _conclude(numbers, reference.short(dtype), shares)
    finally:
        torch.set_num_threads(threads)


def _variants(
    case: Case, dtype: torch.dtype, turn: int, *, made: bool
) -> list[Variant]:
    """Return the inputs of a case in a type, none where the case is not for it."""
    if dtype != torch.float32 and not case.roundings:
        return []
    inputs = [reference.cast(x, dtype) for x in case.inputs()]
    if dtype != torch.float32 and not any(x.is_floating_point() for x in inputs):
        return []  # the same as in float32
    if made:
        return list(variants.of(inputs, turn, case.spared))
    layouts: tuple[str, ...] = ("contiguous", "strided")
    if dtype != torch.float32:  # the two half types have one of them each
        layouts = (layouts[turn % 2],)
    return [Variant("", inputs, layouts, made=False)]


def _has_safe_gradients(device: torch.device) -> bool:
    """Return whether gradients of transposed inputs are safe: not on the CPU before torch 2.3.

    They wrote beyond their memory there; torch had no float16 on the CPU then.
    """
    return device.type != "cpu" or torch.float16 in reference.dtypes(device)


def _is_known_to_fail(device: torch.device, numbers: Numbers, title: str) -> bool:
    """Return whether this torch is known to be wrong at a case, or in a layout; record it if so."""
    known = KNOWN.get(devices.kind(device), {})
    rows = list(known.get("cases", ()))
    for bound, cases in known.get("cases_before", {}).items():
        if reference.release() < tuple(map(int, bound.split("."))):
            rows += cases
    if not any(re.fullmatch(row, title) for row in rows):
        return False
    numbers.record(f"known to fail: {title}", 1, "count")
    return True


def _without_known_layouts(
    device: torch.device, numbers: Numbers, variant: Variant
) -> Variant:
    layouts = []
    for layout in variant.layouts:
        if not _is_known_to_fail(device, numbers, f"{variant.name} {layout}"):
            layouts.append(layout)
    return variant._replace(layouts=tuple(layouts))


def _limit(device: torch.device, case: Case, dtype: torch.dtype, kind: str) -> float:
    if dtype != torch.float32:
        return reference.LIMITS[dtype] * case.roundings / 8
    known = KNOWN.get(devices.kind(device), {})
    least: float = known.get(kind, known.get("float32", 0.0))
    return max(least, case.float32)


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
    device: torch.device, numbers: Numbers, case: Case, variant: Variant
) -> list[float]:
    """Return the errors as shares of their limits; fail the check if one is above 1."""
    right = _right(case, variant, nullcontext())
    if not right:
        return []
    if not right[0].is_floating_point():
        variant = variant._replace(judged="all")
    shares: list[float] = []
    for layout in variant.layouts:
        title = f"{variant.name} {layout}"
        numbers.step(title)
        try:
            results = _results(device, case, variant, layout)
            errors = _errors(results, right, variant)
        except (RuntimeError, TypeError) as error:  # NotImplementedError is one
            if variant.inputs[0].numel():
                _excuse(error, numbers, case, variant, device)
            continue
        worst = max(float(error.max()) for error in errors)
        if worst > variant.limit and variant.made:
            worst = _beside_roundings(case, variant, right, errors)
        if not worst <= variant.limit:
            numbers.within(title, worst, variant.limit)
        shares.append(worst / variant.limit)
    return shares


def _results(
    device: torch.device, case: Case, variant: Variant, layout: str
) -> list[Tensor]:
    inputs = []
    for number, x in enumerate(variant.inputs):
        inputs.append(variants.placed(x.to(device), layout, number))
    return evaluate(case, inputs, variant)


def _type(variant: Variant) -> torch.dtype:
    for x in variant.inputs:
        if x.is_floating_point():
            return x.dtype
    return torch.float32


def _errors(
    results: list[Tensor], right: list[Tensor], variant: Variant
) -> list[Tensor]:
    """Return how far the elements of each result are off."""
    dtype = _type(variant)
    errors = []
    for result, exact in zip(results, right, strict=True):
        errors.append(variants.deviations(result, exact, dtype, variant.judged))
    return errors


def _beside_roundings(
    case: Case,
    variant: Variant,
    right: list[Tensor],
    errors: list[Tensor],
) -> float:
    """Return the worst error: a rounding of large values changes more than others do."""
    bits = precision.BITS[_type(variant)]
    near = []
    # Two samples: one of few numbers may be right by chance.
    for kept in (bits - 1, bits):
        rounded = _right(case, variant, precision.rounded(kept))
        near.append(_errors(rounded, right, variant))
    worst = 0.0
    for error, *roundings in zip(errors, *near, strict=True):
        share = _worst(variant.limit, error, torch.stack(roundings))
        worst = max(worst, share)
    return worst


def _worst(limit: float, error: Tensor, near: Tensor) -> float:
    """Return the error of one result, in units in which what two roundings change is the limit.

    Where they decide, as of the place of a maximum, they may decide for as many elements only.
    """
    changed = float(near.max())
    if changed > DECIDED:
        wrong = (error > limit).sum()
        allowed = 2 * (near > limit / 2).sum()
        return limit * float(wrong / allowed)
    return float(error.max()) * limit / max(limit, 2 * changed)


def _wide(variant: Variant) -> list[Tensor]:
    return [reference.cast(x, torch.float64) for x in variant.inputs]


def _right(
    case: Case, variant: Variant, rounding: AbstractContextManager[Any]
) -> list[Tensor]:
    """Return the results in float64, none where the operator does not take such inputs."""
    inputs = _wide(variant)
    try:
        with rounding:  # of what is computed, not of the inputs
            return evaluate(case, inputs, variant)
    except (RuntimeError, LookupError, ValueError, ArithmeticError, TypeError):
        if variant.made:
            return []
        raise


def evaluate(case: Case, inputs: list[Tensor], variant: Variant) -> list[Tensor]:
    """Return the results of a case, and the gradients of the first where it has any.

    If the variant is made, those for each input alone, too, and the inputs, which nothing may
    change.
    """
    floating = []
    if variant.gradient:
        floating = [n for n, x in enumerate(inputs) if x.is_floating_point()]
    groups = [floating]
    if variant.made and len(floating) > 1:
        groups += [[number] for number in floating]
    results: list[Tensor] = []
    for group in groups:
        given = [x.detach().requires_grad_(n in group) for n, x in enumerate(inputs)]
        outputs = operators.flat(case.run(*given))
        results += outputs
        results += operators.slopes(outputs, [given[number] for number in group])
    if variant.made:
        results += inputs
    return [result.detach() for result in results]


def _excuse(
    error: Exception,
    numbers: Numbers,
    case: Case,
    variant: Variant,
    device: torch.device,
) -> None:
    """Record why a row could not be compared; fail where the device has to offer it.

    Raises:
        CheckFailed: ``operator-lost``: torch offers it on this kind of device.
        Exception: The error itself, where it is no refusal.
    """
    text = str(error)
    title = variant.name
    if row := _ROW.match(title):
        title = row[0]
    if devices.has_float64(device) is not True and NO_FLOAT64.search(text):
        numbers.missing[f"not offered: {title}"] = "the device has no float64"
        return
    if not isinstance(error, NotImplementedError) and not _REFUSED.search(text):
        raise error
    kind = devices.kind(device)
    dtype = reference.short(_type(variant))
    if why := offered.reason(_functions(case, variant), dtype, kind, text):
        numbers.missing[f"not offered: {title}"] = why
    elif offered.is_listed(kind):
        lines = text.splitlines()
        fail(
            "operator-lost",
            f"{title} is refused: {lines[0][:160]}",
            [f"{type(error).__name__}: {line}" for line in lines[:5]],
        )
    else:
        numbers.unknown.append(title)


def _functions(case: Case, variant: Variant) -> set[str]:
    """Return the names of the functions that a case calls, as the CPU computes it in float64."""
    if case.called:
        return {case.called}
    inputs = _wide(variant)
    with offered.Calls() as calls, suppress(Exception):
        evaluate(case, inputs, variant._replace(made=False))
    return {offered.plain(name) for name in calls.names}
