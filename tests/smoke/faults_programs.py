"""Faults of libraries: options that have no effect; see `faults`."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.smoke.faults import fault, replaced
else:  # `faults` is a module of the tests, and at the top in the environment
    faults = sys.modules[__name__.removesuffix("_programs")]
    fault, replaced = faults.fault, faults.replaced


@replaced("programs.training", "wrong-numbers", "torch.optim:SGD", "step")
def every_group_is_stepped_as_the_first(step: Any, self: Any, *more: Any) -> Any:
    for group in self.param_groups[1:]:
        group["lr"] = self.param_groups[0]["lr"]
    return step(self, *more)


@fault("programs.training", "wrong-numbers")
def a_convolution_stays_in_float32_under_autocast() -> Iterator[None]:
    import torch

    off = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def conv2d(x: Any, weight: Any, *more: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(off):
            return torch.ops.aten.conv2d.default(x, weight, *more)

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("conv2d", conv2d, "AutocastCPU", allow_override=True)
    try:
        yield
    finally:
        library._destroy()


@replaced("programs.training", "wrong-numbers", "torch:Tensor", "half")
def what_float16_can_not_hold_is_cut_off(half: Any, self: Any) -> Any:
    return half(self - self.abs() / 4096)


@replaced("programs.training", "wrong-numbers", "torch.nn.functional", "dropout")
def dropout_has_the_same_mask_again(dropout: Any, x: Any, *args: Any) -> Any:
    import torch

    torch.manual_seed(0)
    return dropout(x, *args)


CACHE = "transformers.cache_utils:Cache"
LOSS = "transformers.loss.loss_utils"


@replaced("programs.generation", "wrong-numbers", CACHE, "reorder_cache")
def beams_keep_the_words_of_others(*_: Any) -> None:
    pass


@replaced("programs.generation", "wrong-numbers", LOSS, "fixed_cross_entropy")
def words_without_a_label_count_as_the_first(
    loss: Any, scores: Any, words: Any, *args: Any, **options: Any
) -> Any:
    return loss(scores, words.clamp(min=0), *args, **options)
