"""Faults of libraries: options that have no effect; see `faults`."""

from __future__ import annotations

import functools
import importlib
import math
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.smoke.faults import fault
else:  # `faults` is a module of the tests, and at the top in the environment
    fault = sys.modules[__name__.removesuffix("_programs")].fault


def library(check: str, owner: str, name: str, **more: Any) -> Callable[..., Any]:
    """Register another function or method, which gets the plain one first, as a fault."""

    def register(change: Any) -> Any:
        def apply() -> Iterator[None]:
            home, _, kind = owner.partition(":")
            at = importlib.import_module(home)
            for part in filter(None, kind.split(".")):
                at = getattr(at, part)
            plain = getattr(at, name)

            @functools.wraps(plain)
            def call(*given: Any, **named: Any) -> Any:
                return change(plain, *given, **named)

            with patch.object(at, name, call):
                yield

        apply.__name__ = change.__name__
        fault(check, "wrong-numbers", **more)(apply)
        return change

    return register


# torch --------------------------------------------------------------------------------------------


@library("programs.training", "torch.optim:SGD", "step")
def every_group_is_stepped_as_the_first(plain: Any, self: Any, *more: Any) -> Any:
    kept = [dict(group) for group in self.param_groups]
    for group in self.param_groups[1:]:
        group.update({key: kept[0][key] for key in kept[0] if key != "params"})
    found = plain(self, *more)
    for group, own in zip(self.param_groups, kept, strict=True):
        group.update(own)
    return found


@library("programs.training", "torch.optim.lr_scheduler:CosineAnnealingLR", "get_lr")
def a_rate_does_not_come_down_to_its_least(plain: Any, self: Any) -> Any:
    return [rate + 0.5 * (self.last_epoch > 1) for rate in plain(self)]


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


@library("programs.training", "torch:Tensor", "half")
def what_float16_can_not_hold_is_cut_off(plain: Any, self: Any) -> Any:
    return plain(self - self.abs() / 4096)


@fault("programs.training", "wrong-numbers", "pretend")
def a_peak_forgets_what_is_still_held() -> Iterator[None]:
    from pretend import Backend

    forgotten: list[int] = []

    def reset(self: Any) -> None:
        forgotten.append(self.memory_allocated())

    def peak(self: Any) -> Any:
        return self.memory_allocated() - forgotten[-1]

    with (
        patch.object(Backend, "reset_peak_memory_stats", reset, create=True),
        patch.object(Backend, "max_memory_allocated", peak, create=True),
    ):
        yield


@fault("programs.training", "wrong-numbers", "pretend")
def dropout_has_the_same_mask_again() -> Iterator[None]:
    import torch
    from pretend import spoiled

    def change(result: Any, x: Any, share: float, *_args: Any) -> Any:
        if x.numel() < 65536 or not 0 < share < 1:
            return result
        mask = torch.arange(x.numel()).view(x.shape) % 2 == 0
        return x * mask / (1 - share), mask

    def drawn(result: Any, x: Any, *_args: Any) -> Any:
        if x.numel() < 65536:
            return result
        return x.copy_(torch.arange(x.numel()).view(x.shape) % 2)

    with spoiled("aten::native_dropout", change), spoiled("aten::bernoulli_", drawn):
        yield


@fault("memory.leak", "memory-leak", "pretend")
def attention_keeps_its_result() -> Iterator[None]:
    import torch

    plain, kept = torch.nn.functional.scaled_dot_product_attention, []

    def attend(*given: Any, **named: Any) -> Any:
        kept.append(plain(*given, **named))
        return kept[-1]

    with patch.object(torch.nn.functional, "scaled_dot_product_attention", attend):
        yield


@library(
    "training.loader", "torch.utils.data.dataloader:_BaseDataLoaderIter", "__init__"
)
def workers_that_start_anew_draw_the_same_numbers(
    plain: Any, self: Any, loader: Any
) -> None:
    plain(self, loader)
    self._base_seed = 1234


@fault("memory.release", "memory-not-released", "pretend")
def each_byte_is_counted_twice() -> Iterator[None]:
    from pretend import Backend

    plain = Backend.memory_allocated
    with patch.object(
        Backend, "memory_allocated", lambda self, *which: 2 * plain(self, *which)
    ):
        yield


@fault("identity.code", "foreign-code-loaded")
def a_package_of_elsewhere_comes_first_on_the_path() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "networkx").mkdir()
        Path(folder, "networkx", "__init__.py").write_text("", encoding="utf-8")
        loaded = {
            name: each for name, each in sys.modules.items() if name != "networkx"
        }
        with (
            patch.dict(sys.modules, loaded, clear=True),
            patch.object(sys, "path", [folder, *sys.path]),
        ):
            yield


# Accelerate ---------------------------------------------------------------------------------------


@library("programs.accelerate", "accelerate.scheduler:AcceleratedScheduler", "step")
def rates_fall_where_the_optimizer_waits(_: Any, self: Any, *more: Any) -> None:
    self.scheduler.step(*more)


@library("programs.accelerate", "accelerate:Accelerator", "clip_grad_norm_")
def gradients_are_not_clipped(plain: Any, self: Any, weights: Any, *_: Any) -> Any:
    return plain(self, weights, math.inf)


@library("programs.accelerate", "accelerate:Accelerator", "backward")
def gradients_are_not_divided_by_the_steps(plain: Any, self: Any, loss: Any) -> None:
    plain(self, loss * self.gradient_accumulation_steps)


# transformers -------------------------------------------------------------------------------------


@library("programs.generation", "transformers.cache_utils:Cache", "reorder_cache")
def beams_keep_the_words_of_others(*_: Any) -> None:
    pass


POSITIONS = "_prepare_position_ids_for_generation"


@library("programs.generation", "transformers:GenerationMixin", POSITIONS)
def padding_is_counted_as_words(plain: Any, *given: Any) -> Any:
    found = plain(*given)
    return (
        sys.modules["torch"]
        .arange(found.shape[-1], device=found.device)
        .expand_as(found)
        .clone()
    )


ENDS = "transformers.generation.stopping_criteria:EosTokenCriteria"


@library("programs.generation", "transformers.loss.loss_utils", "fixed_cross_entropy")
def words_without_a_label_count_as_the_first(
    plain: Any, scores: Any, words: Any, *more: Any, **how: Any
) -> Any:
    return plain(scores, words.clamp(min=0), *more, **how)
