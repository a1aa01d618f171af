"""Faults of operators, products, attention, random numbers and memory at real sizes; see `faults`.

Each begins at a size or is in one type only: the small checks beside do not see it.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

# `faults` is a module of the tests, and at the top in the environment
faults = sys.modules[__name__.removesuffix("_operators")]
fault, module = faults.fault, faults.module
operator, replaced = faults.operator, faults.replaced


def is_half(x) -> bool:
    return str(x.dtype) == "torch.float16"


def is_bfloat16(x) -> bool:
    return str(x.dtype) == "torch.bfloat16"


# What a device lost: torch offers it on each kind of device ----------------------------------------


def lost(
    check: str, name: str, code: str = "operator-lost", *, half: bool = False
) -> None:
    """Register that a device refuses an operator, in each type or in half types."""

    def refuse(result, *args):
        tensor = next(x for x in args if hasattr(x, "dtype"))
        if half and not is_half(tensor) and not is_bfloat16(tensor):
            return result
        raise NotImplementedError(f"Could not run 'aten::{name}' on this back end")

    refuse.__name__ = f"{name}_is_lost" + ("_in_half_types" if half else "")
    operator(check, name, code, "device")(refuse)


lost("fused.attention", "bmm")
lost("device.gradient", "convolution")
lost("device.matmul", "mm", "op-fails", half=True)
lost("operators.layers", "_softmax", half=True)
lost("operators.indexing", "sort")


@fault("operators.indexing", "", "device")
def a_torch_that_nobody_read_refuses_to_sort():
    def refuse(*_args) -> None:
        raise NotImplementedError("Could not run 'aten::sort' on this back end")

    offered = module("smoke.reference.offered")
    with (
        patch.dict(offered.RELEASES, dict.fromkeys(offered.RELEASES, ((1, 0), (1, 1)))),
        module("pretend").spoiled("aten::sort", refuse),
    ):
        yield


@fault("fused.attention", "operator-lost", "pretend")
def each_row_of_attention_is_excused_and_nothing_compared():
    def refuse(*_args) -> None:
        raise RuntimeError("Required aspect fp64 is not supported on the device")

    home = module("pretend")
    with (
        patch.dict(home.SAYS, fp64="conversions"),
        home.spoiled("aten::_safe_softmax", refuse),
    ):
        yield


# A healthy device ---------------------------------------------------------------------------------


def others_first(result, *_args):
    """Exchange neighbours of one value: without `stable` their order is not defined."""
    values, places = result
    places = places.clone()
    for first in range(0, values.shape[-1] - 1, 2):
        pair = places[..., first : first + 2]
        is_equal = values[..., first] == values[..., first + 1]
        pair.copy_(pair.flip(-1).where(is_equal[..., None], pair))
    return values, places


def equal_numbers_in_another_order(check: str) -> None:
    """Register a device that orders equal numbers as an H200 does, and not as the CPU."""

    def apply():
        spoiled = module("pretend").spoiled
        with (
            spoiled("aten.sort.default", others_first),
            spoiled("aten.topk.default", others_first),
        ):
            yield

    apply.__name__ = f"equal_numbers_are_in_another_order_in_{check}"
    fault(check, "", "pretend")(apply)


for _check in ("indexing", "variants", "sizes"):
    equal_numbers_in_another_order(f"operators.{_check}")


# Products and attention ---------------------------------------------------------------------------


@operator("matrix.product", "mm")
def one_element_of_a_product_of_512_rows_is_wrong(result, a, _b):
    if len(a) == 512:
        result[500, 500] += result.std()
    return result


@operator("matrix.product", "mm")
def float16_holds_the_parts_of_a_product(result, a, b):
    if not is_half(a) or a.shape[-1] <= 8192:
        return result
    total = result.clone().zero_()
    for left, right in zip(a.split(16, -1), b.split(16, 0), strict=True):
        total += left @ right
    return total


@operator("attention.shapes", "_safe_softmax")
def the_first_of_few_words_see_the_last_keys(result, x, *_args):
    """Align a causal mask with the last keys, as for words that follow a cache."""
    few = x.shape[-2:] == (3, 300)
    if few and bool((x[..., 0, 1:] == float("-inf")).all()):
        return result.roll(297, -1)
    return result


# Operators ----------------------------------------------------------------------------------------


@operator("device.gradient", "native_batch_norm")
def statistics_of_a_batch_overflow_in_float16(result, x, *_args):
    if is_half(x) and float(x.abs().max()) > 256:
        return result[0] * 0, *result[1:]
    return result


@operator("operators.arithmetic", "mean")
def the_mean_of_a_million_leaves_some_out(result, x, *_args):
    return result * 0.98 if x.numel() > 2**20 else result


@operator("operators.indexing", "scatter_add")
def adding_at_equal_indices_keeps_the_last_only_in_float16(
    result, x, axis: int, index, values
):
    if is_half(x):
        return x.scatter(axis, index, x.gather(axis, index) + values)
    return result


@operator("operators.indexing", "topk", code="")
def of_equal_elements_others_come_first(_result, x, count: int, axis: int = -1, *more):
    """Do what no documentation forbids."""
    values, places = x.flip(axis).topk(count, axis, *more)
    return values, x.shape[axis] - 1 - places


@operator("operators.layers", "cumsum")
def a_scan_starts_anew_after_1024_elements(result, x, *_args):
    if x.shape[-1] > 1024:
        result[..., 1024:] -= result[..., 1023:1024]
    return result


@operator("operators.variants", "native_group_norm")
def a_normalisation_reads_channels_last_images_in_the_order_of_memory(
    result, x, *_args
):
    if x.dim() == 4 and x.stride(1) == 1:
        return result[0].flip(2), *result[1:]
    return result


@operator("operators.variants", "topk")
def the_least_of_all_is_not_a_number(result, x, count: int, axis: int = -1, *order):
    if x.isnan().any():
        return x.nan_to_num(float("-inf")).topk(count, axis, *order)
    return result


@operator("operators.variants", "masked_fill_")
def what_is_filled_in_place_in_a_transposed_matrix_is_elsewhere(result, x, *_args):
    if not x.is_contiguous():
        x.copy_(x.roll(1, -1))
    return result


@operator("operators.options", "_fft_c2r")
def an_inverse_transform_destroys_its_input(result, x, *_args):
    if 0 not in x.stride():
        x.copy_(x.flip(-1) * 2)
    return result


@operator("operators.options", "_cdist_forward", "op-fails")
def distances_of_rows_end_with_an_error(*_args):
    raise RuntimeError("an operator of the device failed")


@operator("operators.options", "amax")
def the_largest_of_all_is_too_large(result, _x, axes=(), *_args):
    """Beside it are gradients, which a rounding changes wholly."""
    return result * 1.1 if len(axes) == 2 else result


@operator("operators.sizes", "convolution_backward")
def the_gradient_of_a_filter_leaves_out_the_sixteenth_image(result, gradient, x, *args):
    if len(x) < 16:
        return result
    aten = module("torch").ops.aten
    filters = aten.convolution_backward(gradient[:15], x[:15], *args)[1]
    return result[0], filters, result[2]


@operator("operators.sizes", "multinomial")
def the_next_of_many_words_is_drawn(result, x, *_args):
    return (result + 1) % x.shape[-1] if x.shape[-1] > 16384 else result


# torch's samples, which a child of the suite's process compares -----------------------------------


@replaced(
    "operators.samples",
    "operator-lost",
    "smoke.checks.comparison",
    "evaluate",
    children=True,
)
def most_operators_are_refused(evaluate, case, inputs: list[Any], variant):
    if str(inputs[0].dtype) == "torch.float32":
        raise RuntimeError("not supported by this device")
    return evaluate(case, inputs, variant)


@replaced("operators.samples", "", "smoke.reference.offered", "entries", children=True)
def a_healthy_torch_brings_no_table_of_operators(_entries, *_args):
    raise module("smoke.engine.check").Unmeasured("torch's table of operators")


@replaced(
    "operators.samples", "wrong-numbers", "torch.optim:Adam", "step", children=True
)
def a_fused_optimizer_forgets_the_scale(step, self, *args):
    self.grad_scale = None
    return step(self, *args)


@replaced(
    "operators.samples",
    "wrong-numbers",
    "torch.nn.functional",
    "unfold",
    children=True,
)
def patches_of_an_image_forget_their_padding(unfold, x, *args):
    return (
        unfold(x, *args).flip(-1)
        if str(x.dtype) == "torch.float32"
        else unfold(x, *args)
    )


# Random numbers, memory -----------------------------------------------------------------


@operator("random.draws", "normal_")
def normal_numbers_repeat_in_float16(result, x, *_args):
    if is_half(x):
        result[500_002:] = result[:500_001].clone()
    return result


@replaced("random.seed", "wrong-numbers", "torch", "Generator")
def a_generator_does_not_take_its_state_back(generator, *args):
    class Forgetful(generator):  # type: ignore[misc]
        def set_state(self, _state):
            return self

    return Forgetful(*args)


@operator("memory.large", "slice")
def addresses_wrap_at_four_gibibytes(
    result, x, axis: int, start: int = 0, end: int = 0, *_args
):
    if start >= 2**32:
        return x.narrow(axis, start - 2**32, end - start)
    return result
