"""The checks of models: what runs in the models of their users runs in them, and is compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provision.core.process import Completed

    Suite = Callable[..., tuple[Completed, Any]]

pytestmark = [pytest.mark.machine, pytest.mark.profiles]  # half a minute each
COMPARED = (
    "models.llama",
    "models.unet",
    "models.whisper",
    "models.plates",
    "models.generate",
    "autocast.gradient",
    "training.checkpointing",
    "fused.adamw",
)
# Of a Llama that is sampled, Stable Diffusion's UNet, Whisper's encoder and a training of LPRNet, as
# recorded from other code than the checks have: without views, and what only makes memory.
OF_MODELS = """
    _log_softmax _log_softmax_backward_data _softmax _to_copy add addcdiv_ addcmul_ addmm
    avg_pool2d avg_pool2d_backward bernoulli_ cat clone convolution convolution_backward cos cumsum
    div embedding eq gelu index isin lt masked_fill max max_pool2d_with_indices
    max_pool2d_with_indices_backward mean mm mul multinomial native_batch_norm
    native_batch_norm_backward native_group_norm native_layer_norm neg pow relu rsqrt rsub scatter
    silu sin sort split sqrt sub sum threshold_backward topk upsample_nearest2d where
"""


def test_the_operators_of_four_models_are_compared(suite: Suite) -> None:
    asked = [part for name in COMPARED for part in ("--only", name)]
    done, report = suite("--full", *asked)
    assert done.returncode == 0, done.stdout
    assert report["operators"] == sorted(set(report["operators"]))
    expected = {f"aten::{name}" for name in OF_MODELS.split()}
    assert expected - set(report["operators"]) == set()


def test_without_transformers_a_llama_of_torch_is_compared(
    suite: Suite, sound: Path
) -> None:
    packages = json.loads(sound.read_text(encoding="utf-8"))["packages"]
    del packages["transformers"], packages["tokenizers"]
    done, report = suite("--full", "--only", "models.llama", packages=packages)
    assert done.returncode == 0, done.stdout
    (result,) = [check for check in report["checks"] if check["id"] == "models.llama"]
    numbers = {"float32 output", "float32 gradient", "bfloat16 output"}
    assert set(result["numbers"]) >= numbers
    done, _ = suite("--full", "--only", "models.generate", packages=packages)
    assert "needs transformers, which is not locked" in done.stderr
