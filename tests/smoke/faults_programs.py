"""Faults of libraries: options that have no effect; see `faults`."""

from __future__ import annotations

import sys
import warnings

# `faults` is a module of the tests, and at the top in the environment
faults = sys.modules[__name__.removesuffix("_programs")]
fault, replaced = faults.fault, faults.replaced


@fault("programs.training", "wrong-numbers")
def a_convolution_stays_in_float32_under_autocast():
    import torch

    off = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def conv2d(x, weight, *more):
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


@replaced("programs.training", "wrong-numbers", "torch.nn.functional", "dropout")
def dropout_has_the_same_mask_again(dropout, x, *args):
    import torch

    torch.manual_seed(0)
    return dropout(x, *args)


CACHE = "transformers.cache_utils:Cache"
LOSS = "transformers.loss.loss_utils"


@replaced("programs.generation", "wrong-numbers", CACHE, "reorder_cache")
def beams_keep_the_words_of_others(*_) -> None:
    pass
