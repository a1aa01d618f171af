"""Faults of models and of training, most at real sizes or in one type only; see `faults`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.smoke.faults import fault, module
else:  # `faults` is a module of the tests, and at the top in the environment
    faults = sys.modules[__name__.removesuffix("_models")]
    fault, module = faults.fault, faults.module

Change = "Callable[..., Any]"


def operator(check: str, name: str) -> Callable[[Change], Change]:
    """Register a change of what an operator of the pretend device returns as a fault of a check."""

    def register(change: Change) -> Change:
        def apply() -> Iterator[None]:
            with module("pretend").spoiled(f"aten::{name}", change):
                yield

        apply.__name__ = change.__name__  # type: ignore[attr-defined]
        fault(check, "wrong-numbers", "pretend")(apply)
        return change

    return register


# Whole models -------------------------------------------------------------------------------------


@operator("models.llama", "cos")
def the_rotation_is_one_behind_from_position_64_on(found: Any, *_args: Any) -> Any:
    if found.dim() == 3 and found.shape[1] > 64:
        found[:, 64:] = found[:, 63:-1].clone()
    return found


@operator("models.llama", "silu")
def in_bfloat16_a_gate_is_shut_below_zero(found: Any, x: Any) -> Any:
    return found.clamp(min=0) if str(x.dtype) == "torch.bfloat16" else found


@operator("models.llama", "mm")
def in_float16_a_product_leaves_out_its_last_terms(found: Any, a: Any, b: Any) -> Any:
    if str(a.dtype) == "torch.float16" and a.shape[-1] == 384:
        return found - a[:, 368:] @ b[368:]
    return found


@operator("models.llama", "embedding_dense_backward")
def a_word_that_comes_twice_keeps_one_gradient(
    found: Any, given: Any, words: Any, *_: Any
) -> Any:
    for place, word in enumerate(words.flatten()):
        found[word] = given.flatten(0, 1)[place]
    return found


@operator("models.whisper", "gelu_backward")
def a_transposed_gradient_is_read_as_contiguous(
    found: Any, given: Any, x: Any, **_: Any
) -> Any:
    """Do what torch 2.1 does on the CPU."""
    if given.is_contiguous():
        return found
    flat = given.transpose(1, 2).reshape(given.shape)
    return module("torch").ops.aten.gelu_backward(flat, x)


@operator("models.whisper", "convolution")
def a_long_convolution_forgets_its_padding_at_the_end(
    found: Any, x: Any, *_: Any
) -> Any:
    if x.dim() == 3 and x.shape[-1] == 3000:
        found[..., -1] *= 0.9
    return found


@operator("models.unet", "native_group_norm")
def a_group_norm_has_another_epsilon(_found: Any, *args: Any) -> Any:
    return module("torch").native_group_norm(*args[:-1], 1e-6)


@operator("models.unet", "upsample_nearest2d")
def in_float16_pixels_are_repeated_for_the_wrong_row(
    found: Any, x: Any, *_: Any
) -> Any:
    return found.roll(1, -2) if str(x.dtype) == "torch.float16" else found


@operator("models.plates", "native_batch_norm")
def the_running_variance_is_that_of_the_batch(found: Any, x: Any, *args: Any) -> Any:
    count = x.numel() // x.shape[1]
    args[3].sub_(0.1 * x.transpose(0, 1).flatten(1).var(1) / count)
    return found


@operator("models.plates", "max_pool2d_with_indices_backward")
def the_largest_of_256_channels_gets_no_gradient(found: Any, *_args: Any) -> Any:
    if found.shape[1] == 256:
        found[:, 255] = 0
    return found


@operator("models.generate", "cat")
def the_cache_is_off_by_one_once_it_grows(found: Any, _parts: Any, dim: int = 0) -> Any:
    if found.dim() == 4 and dim in (-2, 2) and found.shape[2] > 72:
        found[:, :, -1] = found[:, :, -2]
    return found


@operator("models.generate", "multinomial")
def the_likeliest_token_is_always_drawn(_found: Any, shares: Any, *_: Any) -> Any:
    return shares.argmax(-1, keepdim=True)


@operator("models.generate", "topk")
def the_largest_are_not_found_among_many(
    found: Any, x: Any, count: int, *_: Any
) -> Any:
    values, places = found
    return (values - 9, places) if count == 50 and x.shape[-1] > 256 else found


# Optimizers, mixed precision ----------------------------------------------------------------------


def steps_with(name: str, change: Callable[[dict[str, Any], list[Any]], None]) -> Any:
    """Let a way of AdamW step with changed settings."""
    adam = module("torch.optim.adam")
    original = getattr(adam, name)

    def step(parameters: Any, *args: Any, **settings: Any) -> Any:
        change(settings, [parameters, *args])
        return original(parameters, *args, **settings)

    return patch.object(adam, name, step)


@fault("fused.adamw", "wrong-numbers")
def over_lists_the_bias_is_not_corrected() -> Iterator[None]:
    def change(_settings: dict[str, Any], args: list[Any]) -> None:
        for count in args[5]:
            count.add_(1000)

    with steps_with("_multi_tensor_adam", change):
        yield


@fault("fused.adamw", "wrong-numbers")
def in_bfloat16_weights_do_not_decay() -> Iterator[None]:
    def change(settings: dict[str, Any], args: list[Any]) -> None:
        if str(args[0][0].dtype) == "torch.bfloat16":
            settings["weight_decay"] = 0.0

    with steps_with("_single_tensor_adam", change):
        yield


@operator("fused.adamw", "_fused_adamw_")
def a_long_tensor_is_stepped_to_the_65536th_element(
    found: Any, tensors: Any, *_: Any
) -> Any:
    for each in tensors:
        each[65536:] = each[65536:].flip(0)
    return found


@operator("fused.adamw", "_fused_adamw_")
def a_transposed_matrix_is_stepped_in_another_order(
    found: Any, tensors: Any, *_: Any
) -> Any:
    for each in tensors:
        if each.dim() == 2:
            each.copy_(each.flip(0))
    return found


@operator("resume.scaler", "_amp_foreach_non_finite_check_and_unscale_")
def infinity_is_seen_in_the_first_gradient_only(
    result: Any, gradients: Any, *found: Any
) -> Any:
    found[0].fill_(float(not gradients[0].isfinite().all()))
    return result


@fault("autocast.forward", "autocast-has-no-effect")
def under_autocast_a_normalisation_is_rounded() -> Iterator[None]:
    torch, functional = module("torch"), module("torch.nn.functional")
    plain = functional.layer_norm

    def layer_norm(*args: Any, **more: Any) -> Any:
        found = plain(*args, **more)
        return (
            found.bfloat16()
            if torch.is_autocast_enabled(args[0].device.type)
            else found
        )

    with patch.object(functional, "layer_norm", layer_norm):
        yield


@contextmanager
def compiled(change: Callable[[str, Any], Any]) -> Iterator[None]:
    """Let ``change`` take a compiled function, of that name, and return what runs instead."""
    torch = module("torch")
    plain = torch.compile

    def compile_(function: Any, **more: Any) -> Any:
        # A back end of its own: what another fault compiled is not taken for its work.
        def kernels(graph: Any, _inputs: Any) -> Any:
            module("torch._inductor.metrics").generated_kernel_count += 1
            return graph.forward

        run = plain(function, backend=kernels, **more)
        return change(function.__name__, run)

    with patch.object(torch, "compile", compile_):
        yield


@fault("compile.mul_add", "wrong-numbers")
def compiled_sums_are_of_another_type() -> Iterator[None]:
    def change(name: str, run: Any) -> Any:
        return (
            run
            if name == "mul_add"
            else lambda *given: [each.float() for each in run(*given)]
        )

    with compiled(change):
        yield


@fault("autocast.forward", "wrong-numbers")
def autocast_keeps_the_weights_of_the_step_before() -> Iterator[None]:
    torch, functional = module("torch"), module("torch.nn.functional")
    plain, kept = functional.linear, {}

    def linear(x: Any, weight: Any, bias: Any) -> Any:
        if torch.is_autocast_enabled(x.device.type):
            old = kept.setdefault(id(weight), weight.detach().clone())
            weight = weight + (old - weight).detach()
        return plain(x, weight, bias)

    with patch.object(functional, "linear", linear):
        yield


@fault("resume.state", "wrong-numbers")
def what_shares_memory_is_loaded_from_its_beginning() -> Iterator[None]:
    utils = module("torch._utils")
    plain = utils._rebuild_tensor

    def rebuild(storage: Any, _offset: int, *shape: Any) -> Any:
        return plain(storage, 0, *shape)

    with patch.object(utils, "_rebuild_tensor", rebuild):
        yield


@fault("resume.trains", "tensors-elsewhere", "pretend", only=("resume.trains",))
def moving_a_model_leaves_its_buffers() -> Iterator[None]:
    modules = module("torch").nn.Module
    plain = modules._apply

    def apply(self: Any, *args: Any) -> Any:
        kept = dict(self._buffers)
        plain(self, *args)
        self._buffers.update(kept)
        return self

    with patch.object(modules, "_apply", apply):
        yield


@fault("training.checkpointing", "wrong-numbers")
def the_first_gradient_alone_is_clipped() -> Iterator[None]:
    utils = module("torch.nn.utils")
    plain = utils.clip_grad_norm_

    with patch.object(
        utils, "clip_grad_norm_", lambda some, *args: plain(some[:1], *args)
    ):
        yield


@fault("training.loader", "wrong-numbers")
def workers_draw_the_same_numbers() -> Iterator[None]:
    workers = module("torch.utils.data._utils.worker")
    plain = workers._worker_loop

    def loop(*args: Any) -> None:
        seed, worker = 8, 10  # the places of base_seed and worker_id
        plain(*args[:seed], args[seed] - args[worker], *args[seed + 1 :])

    with patch.object(workers, "_worker_loop", loop):
        yield


@fault("autocast.gradient", "wrong-numbers")
def under_autocast_gradients_are_still_scaled() -> Iterator[None]:
    torch = module("torch")
    grad = torch.autograd.grad

    def scaled(*args: Any, **more: Any) -> Any:
        by = 2.0 if torch._C._is_any_autocast_enabled() else 1.0
        return tuple(
            each * by if each.dim() == 4 else each for each in grad(*args, **more)
        )

    with patch.object(torch.autograd, "grad", scaled):
        yield


# Resume -------------------------------------------------------------------------------------------


@fault("resume.fresh", "resume-differs", children=True)
def random_numbers_start_over() -> Iterator[None]:
    with patch.object(module("torch"), "set_rng_state", lambda _state: None):
        yield


@fault("resume.fresh", "resume-differs", children=True, only=("resume.fresh",))
def the_loss_scale_is_not_restored_in_a_fresh_process() -> Iterator[None]:
    scaler = module("torch").amp.GradScaler
    with patch.object(scaler, "load_state_dict", lambda _self, _state: None):
        yield


# Checkpointing, loaders ---------------------------------------------------------------------------


@fault("training.checkpointing", "wrong-numbers")
def dropout_is_drawn_anew_where_activations_are_recomputed() -> Iterator[None]:
    checks = module("smoke.checks.test_training")
    original = checks.checkpoint

    def forgetful(*args: Any, use_reentrant: bool) -> Any:
        kept = use_reentrant  # the newer way only
        return original(*args, use_reentrant=use_reentrant, preserve_rng_state=kept)

    with patch.object(checks, "checkpoint", forgetful):
        yield


@fault("training.loader", "wrong-numbers")
def a_worker_hands_out_its_last_batch_again() -> Iterator[None]:
    loaders = module("torch.utils.data.dataloader")._MultiProcessingDataLoaderIter
    process, kept = loaders._process_data, []

    def stale(self: Any, data: Any, *args: Any) -> Any:
        kept.append(process(self, data, *args))
        return kept[-1] if len(kept) % 6 else kept[-2]

    with patch.object(loaders, "_process_data", stale):
        yield


@fault("training.loader", "wrong-numbers", "pretend")
def the_end_of_a_batch_is_not_pinned() -> Iterator[None]:
    loop = module("torch.utils.data._utils.pin_memory")
    original = loop.pin_memory

    def torn(data: Any, *args: Any) -> Any:
        found = original(data, *args)
        for each in found if isinstance(found, list) else [found]:
            if getattr(each, "shape", None) == (6, 12288):
                each[-1, 8192:] = 0
        return found

    with patch.object(loop, "pin_memory", torn):
        yield
