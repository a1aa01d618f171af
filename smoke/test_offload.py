"""Offload: weights on the CPU or on disk are moved to the device for each forward pass."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from smoke import reference
from smoke.checks import check, needs_package
from smoke.finding import fail
from smoke.models import TiedTransformer, seeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from smoke.checks import Numbers
    from smoke.expect import Expect

TOKENS = torch.arange(7)[None]
SEED = "KeyError: 'xpu:0' in Accelerate's hooks (BLIP, DAB-DETR, ViLT on a GPU Max)"


has_accelerate = needs_package("accelerate")


@check("offload.cpu", stands_for=SEED, when=has_accelerate, depends=("accelerate",))
def test_cpu(device: torch.device, numbers: Numbers) -> None:
    """A model with weights offloaded to the CPU computes on the device, twice."""
    import accelerate

    model = accelerate.cpu_offload(_model(), execution_device=device)
    _twice(model, "cpu_offload", device, numbers)


@check("offload.disk", stands_for=SEED, when=has_accelerate, depends=("accelerate",))
def test_disk(device: torch.device, numbers: Numbers, tmp_path: Path) -> None:
    """A model with weights offloaded to disk computes on the device, twice."""
    import accelerate

    model = accelerate.disk_offload(_model(), str(tmp_path), execution_device=device)
    _twice(model, "disk_offload", device, numbers)


@check("offload.tied", stands_for=SEED, when=has_accelerate, depends=("accelerate",))
def test_tied(device: torch.device, expect: Expect, numbers: Numbers, tmp_path: Path) -> None:
    """A dispatched model with tied weights computes twice, the device given by name or number."""
    import accelerate

    names: list[Any] = [device, *([device.index or 0] if _takes_numbers(device, expect) else [])]
    with _watched() as taken:
        for name in names:
            for place in ("cpu", "disk"):
                layers = {"embedding": place, "block": name, "norm": name, "head": place}
                model = accelerate.dispatch_model(
                    _model(),
                    device_map=layers,
                    main_device=name,
                    offload_dir=str(tmp_path / f"{place}-{name}"),
                    force_hooks=True,
                )
                _twice(model, f"{place} to {name}", device, numbers)
    numbers.record("tied releases", len(taken), "count")
    if _has_tied_map() and not taken:
        fail(
            "tied-path-not-taken",
            "Accelerate never released a tied weight, so the check has no effect",
            cause="this version of Accelerate shares tied weights in another way",
            remedy="report it: the check of tied weights needs an update for this version",
            evidence=[f"accelerate {accelerate.__version__}"],
        )


def _takes_numbers(device: torch.device, expect: Expect) -> bool:
    """Return whether the bare number of a device means this one to Accelerate.

    Accelerate before 1.0 hands it to ``.to()``, and torch 2.1 reads 0 as ``cuda:0`` on every
    machine: ipex-llm's stack has both, and its users name the device.
    """
    if device.type == "cpu":
        return False
    if expect.release("accelerate") >= (1, 0):
        return True
    try:
        return bool(torch.empty(0).to(device.index or 0).device == device)
    except (RuntimeError, AssertionError):  # "Torch not compiled with CUDA enabled"
        return False


def _model() -> TiedTransformer:
    model: TiedTransformer = seeded(TiedTransformer).eval()
    return model


def _twice(model: torch.nn.Module, name: str, device: torch.device, numbers: Numbers) -> None:
    """Check two forward passes: the second one meets the state that the first one left."""
    places: list[torch.device] = []
    model.block.register_forward_hook(lambda _block, _given, found: places.append(found.device))
    with torch.no_grad():
        right = _model().double()(TOKENS)
        for turn in (1, 2):
            numbers.step(f"{name}, pass {turn}")
            found = _forward(model, f"{name}, pass {turn}")
            numbers.within(f"{name}, pass {turn}", reference.error(found, right), 1e-5)
    if any(place.type != device.type for place in places):
        fail(
            "tensors-elsewhere",
            f"{name}: the model computed on {places[0]}, not on {device}",
            cause="Accelerate did not move the weights to the device",
            remedy="give the device as torch.device, not as text",
            evidence=[str(place) for place in places],
        )


def _forward(model: torch.nn.Module, name: str) -> torch.Tensor:
    try:
        return model(TOKENS)
    except KeyError as error:
        fail(
            "accelerate-offload-keyerror",
            f"{name}: KeyError {error}",
            cause="Accelerate stored a tied weight under another name of the device",
            remedy="use Accelerate 1.6 or later, or give the device by name",
            evidence=[f"KeyError: {error}", f"torch {torch.__version__}"],
        )


@contextmanager
def _watched() -> Iterator[list[int]]:
    """Record each release of tied weights by a hook: the code path where the KeyError arose."""
    from accelerate.hooks import AlignDevicesHook

    original, taken = AlignDevicesHook.post_forward, []

    def post_forward(hook: Any, module: Any, output: Any) -> Any:  # noqa: ANN401
        if hook.offload and getattr(hook, "tied_pointers_to_remove", None):
            taken.append(len(hook.tied_pointers_to_remove))
        return original(hook, module, output)

    AlignDevicesHook.post_forward = post_forward
    try:
        yield taken
    finally:
        AlignDevicesHook.post_forward = original


def _has_tied_map() -> bool:
    """Return whether this Accelerate shares tied weights at all; versions before 0.25 don't."""
    from accelerate.hooks import AlignDevicesHook

    return "tied_params_map" in AlignDevicesHook.__init__.__code__.co_varnames
