"""Faults of operators, products, attention, random numbers and memory at real sizes; see `faults`.

Each begins at a size or is in one type only: the small checks beside do not see it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.smoke.faults import fault
else:  # `faults` is a module of the tests, and at the top in the environment
    fault = sys.modules[__name__.removesuffix("_operators")].fault


@contextmanager
def spoiled_where(
    operator: str, where: Callable[..., bool], change: Callable[..., Any]
) -> Any:
    """Let an operator of the device give another result for some arguments."""
    from pretend import spoiled

    def changed(result: Any, *args: Any) -> Any:
        return change(result, *args) if where(*args) else result

    with spoiled(operator, changed):
        yield


def half(name: str = "float16") -> Callable[..., bool]:
    """Return whether the first argument is of this type."""
    return lambda x, *_args: str(x.dtype) == f"torch.{name}"


def end_scaled(result: Any, *_args: Any) -> Any:
    """Change the last eight columns of a result, as a kernel that ends its rows wrongly."""
    result = result.clone()
    result[..., -8:] *= 1.1
    return result


@fault("matrix.product", "wrong-numbers", "pretend")
def a_product_of_512_rows_is_wrong_in_its_last_tile_in_bfloat16() -> Iterator[None]:
    of_512 = half("bfloat16")
    with spoiled_where(
        "aten::mm", lambda a, _b: of_512(a) and len(a) == 512, end_scaled
    ):
        yield


@fault("matrix.product", "wrong-numbers", "pretend")
def one_element_of_a_product_of_512_rows_is_wrong() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[500, 500] += result.std()
        return result

    with spoiled_where("aten::mm", lambda a, _b: len(a) == 512, change):
        yield


@fault("device.gradient", "wrong-numbers", "pretend")
def convolution_in_groups_forgets_a_group_in_float16() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[:, :8] = result[:, 8:16]
        return result

    def grouped(x: Any, _weight: Any, *more: Any) -> bool:
        return half()(x) and more[-1] == 4

    with spoiled_where("aten::convolution", grouped, change):
        yield


@fault("operators.arithmetic", "wrong-numbers", "pretend")
def the_mean_of_a_million_leaves_some_out() -> Iterator[None]:
    with spoiled_where(
        "aten::mean", lambda x, *_: x.numel() > 2**20, lambda r, *_: r * 0.98
    ):
        yield


@fault("operators.arithmetic", "wrong-numbers", "pretend")
def the_sum_of_a_long_row_is_kept_in_bfloat16() -> Iterator[None]:
    def long(x: Any, *_args: Any) -> bool:
        return half("bfloat16")(x) and x.shape[-1] > 4096

    def change(_result: Any, x: Any, axes: Any, *_args: Any) -> Any:
        return x.cumsum(-1)[..., :4000:8].diff(dim=-1).sum(axes)

    with spoiled_where("aten::sum", long, change):
        yield


@fault("operators.indexing", "wrong-numbers", "pretend")
def adding_at_equal_indices_keeps_the_last_only_in_float16() -> Iterator[None]:
    def change(_result: Any, x: Any, axis: int, index: Any, values: Any) -> Any:
        return x.scatter(axis, index, x.gather(axis, index) + values)

    with spoiled_where("aten::scatter_add", half(), change):
        yield


@fault("operators.indexing", "wrong-numbers", "pretend")
def gathering_stops_before_the_last_of_4097() -> Iterator[None]:
    def change(_result: Any, x: Any, axis: int, index: Any, *_args: Any) -> Any:
        return x.gather(axis, index.clamp(max=4000))

    with spoiled_where("aten::gather", lambda x, *_args: x.shape[-1] > 4096, change):
        yield


@fault("operators.layers", "wrong-numbers", "pretend")
def the_softmax_of_a_wide_row_is_wrong_at_its_end_in_float16() -> Iterator[None]:
    def wide(x: Any, *_args: Any) -> bool:
        return half()(x) and x.shape[-1] > 4096

    with spoiled_where("aten::_softmax", wide, end_scaled):
        yield


@fault("operators.layers", "wrong-numbers", "pretend")
def a_scan_starts_anew_after_1024_elements() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[..., 1024:] -= result[..., 1023:1024]
        return result

    with spoiled_where("aten::cumsum", lambda x, *_args: x.shape[-1] > 1024, change):
        yield


@fault("operators.variants", "wrong-numbers", "pretend")
def a_normalisation_reads_channels_last_images_in_the_order_of_memory() -> Iterator[
    None
]:
    def last(x: Any, *_args: Any) -> bool:
        return x.dim() == 4 and x.stride(1) == 1

    def change(result: Any, *_args: Any) -> Any:
        return (result[0].flip(2), *result[1:])

    with spoiled_where("aten::native_group_norm", last, change):
        yield


@fault("operators.variants", "wrong-numbers", "pretend")
def the_least_of_all_is_not_a_number() -> Iterator[None]:
    def change(_result: Any, x: Any, count: int, axis: int = -1, *order: Any) -> Any:
        return x.nan_to_num(float("-inf")).topk(count, axis, *order)

    with spoiled_where("aten::topk", lambda x, *_args: x.isnan().any(), change):
        yield


@fault("operators.variants", "wrong-numbers", "pretend")
def what_is_filled_in_place_in_a_transposed_matrix_is_elsewhere() -> Iterator[None]:
    def change(result: Any, x: Any, *_args: Any) -> Any:
        x.copy_(x.roll(1, -1))
        return result

    def turned(x: Any, *_args: Any) -> bool:
        return not x.is_contiguous()

    with spoiled_where("aten::masked_fill_", turned, change):
        yield


@fault("operators.options", "wrong-numbers", "pretend")
def an_inverse_transform_destroys_its_input() -> Iterator[None]:
    def change(result: Any, x: Any, *_args: Any) -> Any:
        if 0 not in x.stride():
            x.copy_(x.flip(-1) * 2)
        return result

    with spoiled_where("aten::_fft_c2r", lambda *_args: True, change):
        yield


@fault("operators.options", "wrong-numbers", "pretend")
def a_sum_of_many_truths_wraps() -> Iterator[None]:
    def truths(x: Any, *_args: Any) -> bool:
        return str(x.dtype) == "torch.bool"

    def change(result: Any, *_args: Any) -> Any:
        return result % 128

    with spoiled_where("aten::cumsum", truths, change):
        yield


@fault("operators.options", "op-fails", "pretend")
def distances_of_rows_end_with_an_error() -> Iterator[None]:
    def change(*_args: Any) -> Any:
        raise RuntimeError("an operator of the device failed")

    with spoiled_where("aten::_cdist_forward", lambda *_args: True, change):
        yield


@fault("operators.sizes", "wrong-numbers", "pretend")
def the_gradient_of_a_filter_leaves_out_the_sixteenth_image() -> Iterator[None]:
    import torch

    def batch(_gradient: Any, x: Any, *_args: Any) -> bool:
        return len(x) >= 16

    def change(result: Any, gradient: Any, x: Any, *args: Any) -> Any:
        filters = torch.ops.aten.convolution_backward(gradient[:15], x[:15], *args)[1]
        return (result[0], filters, result[2])

    with spoiled_where("aten::convolution_backward", batch, change):
        yield


@fault("operators.sizes", "wrong-numbers", "pretend")
def the_next_of_many_words_is_drawn() -> Iterator[None]:
    def many(x: Any, *_args: Any) -> bool:
        return bool(x.shape[-1] > 16384)

    with spoiled_where(
        "aten::multinomial", many, lambda r, x, *_args: (r + 1) % x.shape[-1]
    ):
        yield


@fault("operators.samples", "operator-lost", children=True)
def most_operators_are_refused() -> Iterator[None]:
    from smoke.checks import test_operators

    plain = test_operators._evaluate

    def evaluate(case: Any, inputs: list[Any], **more: Any) -> Any:
        if str(inputs[0].dtype) == "torch.float32":
            raise RuntimeError("not supported by this device")
        return plain(case, inputs, **more)

    with patch.object(test_operators, "_evaluate", evaluate):
        yield


@fault("operators.samples", "wrong-numbers", "pretend", children=True)
def patches_of_an_image_forget_their_padding() -> Iterator[None]:
    def padded(*args: Any) -> bool:
        return any(args[3])

    with spoiled_where("aten::im2col", padded, lambda result, *_args: result.flip(-1)):
        yield


@fault("operators.modules", "wrong-numbers", "pretend")
def dropout_scales_its_gradient_otherwise() -> Iterator[None]:
    with spoiled_where(
        "aten::native_dropout_backward", half(), lambda r, *_args: r * 0.75
    ):
        yield


@fault("operators.modules", "wrong-numbers", "pretend")
def a_fused_optimizer_forgets_the_scale() -> Iterator[None]:
    import torch

    plain = torch.optim.Adam.step

    def step(self: Any, *args: Any) -> Any:
        with patch.object(self, "grad_scale", None, create=True):
            return plain(self, *args)

    with patch.object(torch.optim.Adam, "step", step):
        yield


@fault("operators.large", "wrong-numbers", "pretend")
def a_softmax_of_65537_rows_lacks_the_last() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[65_536:] = 0
        return result

    with spoiled_where("aten::_softmax", lambda x, *_args: len(x) > 65_536, change):
        yield


@fault("matrix.product", "wrong-numbers", "pretend")
def float16_holds_the_parts_of_a_product() -> Iterator[None]:
    def change(result: Any, a: Any, b: Any) -> Any:
        total = result.clone().zero_()
        for left, right in zip(a.split(16, -1), b.split(16, 0), strict=True):
            total += left @ right
        return total

    def long(a: Any, _b: Any) -> bool:
        return half()(a) and a.shape[-1] > 8192

    with spoiled_where("aten::mm", long, change):
        yield


@fault("attention.shapes", "wrong-numbers", "pretend")
def the_first_of_few_words_see_the_last_keys() -> Iterator[None]:
    """Align a causal mask with the last keys, as for words that follow a cache."""

    def change(result: Any, x: Any, *_args: Any) -> Any:
        return result.roll(297, -1)

    def few(x: Any, *_args: Any) -> bool:
        return x.shape[-2:] == (3, 300) and bool((x[..., 0, 1:] == float("-inf")).all())

    with spoiled_where("aten::_safe_softmax", few, change):
        yield


@fault("attention.shapes", "wrong-numbers", "pretend")
def attention_over_2048_words_is_wrong() -> Iterator[None]:
    with spoiled_where(
        "aten::_safe_softmax", lambda x, *_args: x.shape[-1] == 2048, end_scaled
    ):
        yield


@fault("random.draws", "wrong-numbers", "pretend")
def normal_numbers_repeat_in_float16() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[500_002:] = result[:500_001].clone()
        return result

    with spoiled_where("aten::normal_", half(), change):
        yield


@fault("random.draws", "wrong-numbers", "pretend")
def dropout_does_not_scale_in_bfloat16() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        return (result[0] * 0.75, result[1])

    with spoiled_where("aten::native_dropout", half("bfloat16"), change):
        yield


@fault("random.seed", "wrong-numbers")
def a_generator_does_not_take_its_state_back() -> Iterator[None]:
    import torch

    class Forgetful(torch.Generator):
        def set_state(self, _state: Any) -> Any:
            return self

    with patch.object(torch, "Generator", Forgetful):
        yield


@fault("memory.large", "wrong-numbers", "pretend")
def addresses_wrap_at_four_gibibytes() -> Iterator[None]:
    def change(
        _result: Any, x: Any, axis: int, start: int, end: int, *_args: Any
    ) -> Any:
        return x.narrow(axis, start - 2**32, end - start)

    def beyond(_x: Any, _axis: int, start: int = 0, *_args: Any) -> bool:
        return start >= 2**32

    with spoiled_where("aten::slice", beyond, change):
        yield


@fault("transfer.roundtrip", "transfer-corrupts", "pretend")
def the_last_byte_of_two_megabytes_changes_on_its_way() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[-1, -1] ^= 1
        return result

    def large(x: Any) -> bool:
        return str(x.dtype) == "torch.uint8" and x.numel() > 2**21

    with spoiled_where("aten::_to_copy", large, change):
        yield


@fault("operators.options", "wrong-numbers", "pretend")
def filling_the_end_of_a_matrix_fills_its_beginning() -> Iterator[None]:
    def later(x: Any, *_args: Any) -> bool:
        return x.dim() == 2 and x.is_contiguous() and x.storage_offset() > 0

    def change(result: Any, x: Any, value: float) -> Any:
        x.as_strided(x.shape, x.stride(), 0).fill_(value)
        return result

    with spoiled_where("aten::fill_", later, change):
        yield


@fault("operators.options", "wrong-numbers", "pretend")
def a_variance_is_the_mean_square_less_the_squared_mean() -> Iterator[None]:
    def change(
        result: Any, x: Any, _shape: Any, _weight: Any, _bias: Any, least: float
    ) -> Any:
        mean = x.mean(-1, keepdim=True)
        return (
            (x - mean) * (x.square().mean(-1, keepdim=True) - mean**2 + least).rsqrt(),
            *result[1:],
        )

    def far(x: Any, *_args: Any) -> bool:
        return half("float32")(x) and bool(x.numel()) and float(x.min()) > 999

    with spoiled_where("aten::native_layer_norm", far, change):
        yield


@fault("operators.options", "wrong-numbers", "pretend")
def fp8_has_nothing_between_256_and_its_largest() -> Iterator[None]:
    from pretend import spoiled

    def change(result: Any, x: Any) -> Any:
        if str(result.dtype) != "torch.float8_e4m3fn":
            return result
        return x.float().where(x.abs() < 256, x.float().sign() * 448).to(result.dtype)

    with spoiled("aten::_to_copy", change):
        yield


@fault("operators.large", "wrong-numbers", "pretend")
def a_convolution_of_a_long_sequence_begins_with_a_constant() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[..., :99] = result[..., 99:100]
        return result

    with spoiled_where(
        "aten::convolution", lambda x, *_args: x.shape[-1] > 32768, change
    ):
        yield


@fault("operators.options", "wrong-numbers", "pretend")
def words_of_32_bits_are_looked_up_as_others() -> Iterator[None]:
    def short(_table: Any, words: Any, *_args: Any) -> bool:
        return str(words.dtype) == "torch.int32"

    with spoiled_where("aten::embedding", short, lambda result, *_args: result.flip(0)):
        yield


@fault("device.gradient", "wrong-numbers", "pretend")
def statistics_of_a_batch_overflow_in_float16() -> Iterator[None]:
    def large(x: Any, *_args: Any) -> bool:
        return half()(x) and float(x.abs().max()) > 256

    def change(result: Any, *_args: Any) -> Any:
        return result[0] * 0, *result[1:]

    with spoiled_where("aten::native_batch_norm", large, change):
        yield


# Beside a result in the same row that a rounding changes wholly: of an index, of a gradient.


@fault("operators.options", "wrong-numbers", "pretend")
def the_largest_of_all_is_too_large() -> Iterator[None]:
    def of_all(_x: Any, dims: Any = (), *_args: Any) -> bool:
        return len(dims) == 2

    with spoiled_where("aten::amax", of_all, lambda result, *_args: result * 1.1):
        yield


@fault("operators.large", "wrong-numbers", "pretend")
def beyond_65536_rows_no_sum_is_written() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        result[65_536:] = 0
        return result

    def many(x: Any, dims: Any = (), *_args: Any) -> bool:
        return x.shape == (65_567, 4) and list(dims) == [1]

    with spoiled_where("aten::sum", many, change):
        yield


@fault("resume.scaler", "resume-differs", "pretend")
def a_scale_never_grows() -> Iterator[None]:
    import torch

    plain = torch._amp_update_scale_

    def update(scale: Any, tracker: Any, found: Any, _growth: float, *more: Any) -> Any:
        return plain(scale, tracker, found, 1.0, *more)

    with patch.object(torch, "_amp_update_scale_", update):
        yield
