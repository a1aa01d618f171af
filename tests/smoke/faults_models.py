"""Faults of models and of training, most at real sizes or in one type only; see `faults`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.smoke.faults import module, operator, replaced
else:  # `faults` is a module of the tests, and at the top in the environment
    faults = sys.modules[__name__.removesuffix("_models")]
    module, operator, replaced = faults.module, faults.operator, faults.replaced

# Whole models -------------------------------------------------------------------------------------


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


@operator("models.plates", "native_batch_norm")
def the_running_variance_is_that_of_the_batch(found: Any, x: Any, *args: Any) -> Any:
    count = x.numel() // x.shape[1]
    args[3].sub_(0.1 * x.transpose(0, 1).flatten(1).var(1) / count)
    return found


@operator("models.generate", "cat")
def the_cache_is_off_by_one_once_it_grows(found: Any, _parts: Any, dim: int = 0) -> Any:
    if found.dim() == 4 and dim in (-2, 2) and found.shape[2] > 72:
        found[:, :, -1] = found[:, :, -2]
    return found


@operator("models.generate", "multinomial")
def the_likeliest_token_is_always_drawn(_found: Any, shares: Any, *_: Any) -> Any:
    return shares.argmax(-1, keepdim=True)


# Optimizers, mixed precision ----------------------------------------------------------------------


@replaced("fused.adamw", "wrong-numbers", "torch.optim.adam", "_multi_tensor_adam")
def over_lists_the_bias_is_not_corrected(
    step: Any, parameters: Any, *args: Any, **settings: Any
) -> Any:
    for count in args[4]:  # the steps so far
        count.add_(1000)
    return step(parameters, *args, **settings)


WEIGHTS: dict[int, Any] = {}


@replaced("autocast.forward", "wrong-numbers", "torch.nn.functional", "linear")
def autocast_keeps_the_weights_of_the_step_before(
    linear: Any, x: Any, weight: Any, bias: Any
) -> Any:
    if module("torch").is_autocast_enabled(x.device.type):
        old = WEIGHTS.setdefault(id(weight), weight.detach().clone())
        weight = weight + (old - weight).detach()
    return linear(x, weight, bias)


@replaced("resume.trains", "tensors-elsewhere", "torch.nn:Module", "_apply", "pretend")
def moving_a_model_leaves_its_buffers(apply: Any, self: Any, *args: Any) -> Any:
    buffers = dict(self._buffers)
    apply(self, *args)
    self._buffers.update(buffers)
    return self


@replaced("autocast.gradient", "wrong-numbers", "torch.autograd", "grad")
def under_autocast_gradients_are_still_scaled(
    grad: Any, *args: Any, **more: Any
) -> Any:
    by = 2.0 if module("torch")._C._is_any_autocast_enabled() else 1.0
    gradients = grad(*args, **more)
    return tuple(part * by if part.dim() == 4 else part for part in gradients)


# Checkpointing, loaders ---------------------------------------------------------------------------

TRAINING, WORKER = "smoke.checks.test_training", "torch.utils.data._utils.worker"


@replaced("training.checkpointing", "wrong-numbers", TRAINING, "checkpoint")
def dropout_is_drawn_anew_where_activations_are_recomputed(
    original: Any, *args: Any, use_reentrant: bool
) -> Any:
    kept = use_reentrant  # the newer way only
    return original(*args, use_reentrant=use_reentrant, preserve_rng_state=kept)


@replaced("training.loader", "wrong-numbers", WORKER, "_worker_loop")
def workers_draw_the_same_numbers(loop: Any, *args: Any) -> None:
    seed, worker = 8, 10  # the places of base_seed and worker_id
    loop(*args[:seed], args[seed] - args[worker], *args[seed + 1 :])


PINNING = "torch.utils.data._utils.pin_memory"


@replaced("training.loader", "wrong-numbers", PINNING, "pin_memory", "pretend")
def the_end_of_a_batch_is_not_pinned(original: Any, data: Any, *args: Any) -> Any:
    pinned = original(data, *args)
    for part in pinned if isinstance(pinned, list) else [pinned]:
        if getattr(part, "shape", None) == (6, 12288):
            part[-1, 8192:] = 0
    return pinned
