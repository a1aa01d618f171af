"""Faults of each class of envs/catalog/known-wrong.toml, as the reports describe them; see `faults`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.smoke.faults import fault
    from tests.smoke.faults_operators import end_scaled, half, spoiled_where
else:  # `faults` is a module of the tests, and at the top in the environment
    FAULTS = __name__.removesuffix("_known_wrong")
    fault = sys.modules[FAULTS].fault
    operators = sys.modules[f"{FAULTS}_operators"]
    end_scaled, half, spoiled_where = (
        operators.end_scaled,
        operators.half,
        operators.spoiled_where,
    )


@fault("known-wrong.masks", "wrong-numbers", "pretend")
def a_mask_of_600_keeps_half_of_its_elements_in_every_third_call() -> Iterator[None]:
    calls = []

    def change(result: Any, *_args: Any) -> Any:
        calls.append(1)
        return result if len(calls) % 3 else result[: len(result) // 2]

    with spoiled_where("aten::nonzero", lambda x: x.numel() == 600, change):
        yield


@fault("known-wrong.order", "wrong-numbers", "pretend")
def the_largest_of_4096_are_others() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        values, places = result
        return values, places.roll(1, -1)

    with spoiled_where("aten::topk", lambda x, *_: x.shape == (2, 4096), change):
        yield


@fault("known-wrong.order", "wrong-numbers", "pretend")
def sorting_65537_swaps_two() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        values, places = result
        return values.roll(1, -1), places

    with spoiled_where("aten::sort", lambda x, *_: x.shape == (2, 65537), change):
        yield


@fault("known-wrong.softmax", "wrong-numbers", "pretend")
def a_softmax_of_1025_is_wrong_at_its_end() -> Iterator[None]:
    with spoiled_where(
        "aten::_softmax", lambda x, *_: x.shape == (3, 1025), end_scaled
    ):
        yield


@fault("known-wrong.softmax", "wrong-numbers", "pretend")
def the_gradient_of_a_softmax_of_16385_is_wrong_at_its_end() -> Iterator[None]:
    with spoiled_where(
        "aten::_softmax_backward_data",
        lambda x, *_: x.shape == (3, 16385),
        end_scaled,
    ):
        yield


@fault("known-wrong.half", "wrong-numbers", "pretend")
def a_product_of_512_in_float16_is_not_a_number() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        return result * float("nan")

    of_half = half()
    with spoiled_where(
        "aten::mm",
        lambda a, b: of_half(a) and a.shape == b.shape == (512, 512),
        change,
    ):
        yield


@fault("known-wrong.half", "wrong-numbers", "pretend")
def a_linear_layer_in_bfloat16_gives_zeros() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        return result * 0

    of_half = half("bfloat16")
    with spoiled_where(
        "aten::addmm", lambda _c, a, *_: of_half(a) and len(a) == 40, change
    ):
        yield


@fault("known-wrong.chain", "wrong-numbers", "pretend")
def sums_are_not_a_number_after_a_chain() -> Iterator[None]:
    def change(result: Any, *_args: Any) -> Any:
        return result * float("nan")

    with spoiled_where("aten::index_add", lambda x, *_: x.shape == (257, 64), change):
        yield
