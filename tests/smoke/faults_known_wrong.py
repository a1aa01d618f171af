"""Faults of each class of envs/catalog/known-wrong.toml, as the reports describe them; see `faults`."""

from __future__ import annotations

import sys

# `faults` is a module of the tests, and at the top in the environment
operator = sys.modules[__name__.removesuffix("_known_wrong")].operator

CALLS: list[int] = []


def end_scaled(result):
    """Change the last eight columns of a result, as a kernel that ends its rows wrongly."""
    result = result.clone()
    result[..., -8:] *= 1.1
    return result


@operator("known-wrong.masks", "nonzero")
def a_mask_of_600_keeps_half_of_its_elements_in_every_third_call(result, x):
    if x.numel() != 600:
        return result
    CALLS.append(1)
    return result if len(CALLS) % 3 else result[: len(result) // 2]


@operator("known-wrong.order", "topk")
def the_largest_of_4096_are_others(result, x, *_args):
    values, places = result
    return (values, places.roll(1, -1)) if x.shape == (2, 4096) else result


@operator("known-wrong.order", "sort")
def sorting_65537_swaps_two(result, x, *_args):
    values, places = result
    return (values.roll(1, -1), places) if x.shape == (2, 65537) else result


@operator("known-wrong.softmax", "_softmax")
def a_softmax_of_1025_is_wrong_at_its_end(result, x, *_args):
    return end_scaled(result) if x.shape == (3, 1025) else result


@operator("known-wrong.softmax", "_softmax_backward_data")
def the_gradient_of_a_softmax_of_16385_is_wrong_at_its_end(result, x, *_args):
    return end_scaled(result) if x.shape == (3, 16385) else result


@operator("known-wrong.half", "mm")
def a_product_of_512_in_float16_is_not_a_number(result, a, b):
    is_half = str(a.dtype) == "torch.float16"
    if is_half and a.shape == b.shape == (512, 512):
        return result * float("nan")
    return result


@operator("known-wrong.half", "addmm")
def a_linear_layer_in_bfloat16_gives_zeros(result, _bias, x, *_args):
    is_half = str(x.dtype) == "torch.bfloat16"
    return result * 0 if is_half and len(x) == 40 else result


@operator("operators.variants", "avg_pool2d_backward")
def the_gradient_of_a_padded_mean_is_shifted_in_channels_last_images(
    result, _gradient, x, _size, _stride, padding, *_args
):
    is_channels_last = x.dim() == 4 and x.stride(1) == 1
    return result.roll(padding, (2, 3)) if is_channels_last else result


@operator("known-wrong.chain", "index_add_")
def sums_are_not_a_number_after_a_chain(result, x, *_args):
    # In place: what is written is the result.
    return result.fill_(float("nan")) if x.shape == (257, 64) else result
