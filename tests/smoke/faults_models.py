"""Faults of models and of training, most at real sizes or in one type only; see `faults`."""

from __future__ import annotations

import sys
from typing import Any

# `faults` is a module of the tests, and at the top in the environment
faults = sys.modules[__name__.removesuffix("_models")]
module, operator, replaced = faults.module, faults.operator, faults.replaced

# Whole models -------------------------------------------------------------------------------------


@operator("models.llama", "embedding_dense_backward")
def a_word_that_comes_twice_keeps_one_gradient(found, given, words, *_):
    gradients = given.flatten(0, 1)
    for word, gradient in zip(words.flatten(), gradients, strict=True):
        found[word] = gradient
    return found


@operator("models.whisper", "convolution")
def a_long_convolution_forgets_its_padding_at_the_end(found, x, *_):
    if x.dim() == 3 and x.shape[-1] == 3000:
        found[..., -1] *= 0.9
    return found


@operator("models.unet", "native_group_norm")
def a_group_norm_has_another_epsilon(_found, *args):
    torch = module("torch")
    *others, _epsilon = args
    return torch.native_group_norm(*others, 1e-6)


@operator("models.plates", "native_batch_norm")
def the_running_variance_is_that_of_the_batch(found, x, *args):
    channels = x.transpose(0, 1).flatten(1)
    count = channels.shape[1]
    running_variance = args[3]
    running_variance.sub_(0.1 * channels.var(1) / count)
    return found


@operator("models.generate", "cat")
def the_cache_is_off_by_one_once_it_grows(found, _parts, dim: int = 0):
    if found.dim() != 4 or dim not in (-2, 2):
        return found
    if found.shape[2] > 72:
        found[:, :, -1] = found[:, :, -2]
    return found


# Optimizers, mixed precision ----------------------------------------------------------------------


WEIGHTS: dict[int, Any] = {}


@replaced("autocast.forward", "wrong-numbers", "torch.nn.functional", "linear")
def autocast_keeps_the_weights_of_the_step_before(linear, x, weight, bias):
    torch = module("torch")
    if torch.is_autocast_enabled(x.device.type):
        now = weight.detach().clone()
        old = WEIGHTS.setdefault(id(weight), now)
        weight = weight + (old - weight).detach()
    return linear(x, weight, bias)


@replaced("resume.trains", "tensors-elsewhere", "torch.nn:Module", "_apply", "pretend")
def moving_a_model_leaves_its_buffers(apply, self, *args):
    buffers = dict(self._buffers)
    apply(self, *args)
    self._buffers.update(buffers)
    return self


@replaced("autocast.gradient", "wrong-numbers", "torch.autograd", "grad")
def under_autocast_gradients_are_still_scaled(grad, *args, **more):
    torch = module("torch")
    gradients = grad(*args, **more)
    if not torch._C._is_any_autocast_enabled():
        return gradients
    scaled = []
    for part in gradients:
        scale = 2.0 if part.dim() == 4 else 1.0
        scaled.append(part * scale)
    return tuple(scaled)


# Checkpointing, loaders ---------------------------------------------------------------------------

TRAINING, WORKER = "smoke.checks.test_training", "torch.utils.data._utils.worker"


@replaced("training.checkpointing", "wrong-numbers", TRAINING, "checkpoint")
def dropout_is_drawn_anew_where_activations_are_recomputed(
    original, *args, use_reentrant: bool
):
    kept = use_reentrant  # the newer way only
    return original(*args, use_reentrant=use_reentrant, preserve_rng_state=kept)


@replaced("training.loader", "wrong-numbers", WORKER, "_worker_loop")
def workers_draw_the_same_numbers(loop, *args) -> None:
    seed, worker = 8, 10  # the places of base_seed and worker_id
    changed = list(args)
    changed[seed] -= changed[worker]
    loop(*changed)


PINNING = "torch.utils.data._utils.pin_memory"


@replaced("training.loader", "wrong-numbers", PINNING, "pin_memory", "pretend")
def the_end_of_a_batch_is_not_pinned(original, data, *args):
    pinned = original(data, *args)
    parts = pinned if isinstance(pinned, list) else [pinned]
    for part in parts:
        shape = getattr(part, "shape", None)
        if shape == (6, 12288):
            part[-1, 8192:] = 0
    return pinned
