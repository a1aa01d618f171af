"""Offload: weights on the CPU or on disk are moved to the device for each forward pass."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from smoke.device import devices
from smoke.engine.check import Numbers, check, needs_package
from smoke.engine.expect import Expect
from smoke.engine.finding import fail, fail_if
from smoke.reference import reference
from smoke.reference.models import TiedTransformer, filled

# Module or tensor -> "cpu", "disk", or the device that keeps it.
Places = dict[str, Any]
# The second pass meets what the first one left, and is of another size.
LENGTHS = (7, 5)
PARTS = ("embedding", *(f"blocks.{number}" for number in range(5)), "norm", "head")
SEED = "KeyError: 'xpu:0' in Accelerate's hooks (BLIP, DAB-DETR, ViLT on a GPU Max)"

has_accelerate = needs_package("accelerate")


@check("offload.cpu", stands_for=SEED, when=has_accelerate)
def test_cpu(device: torch.device, expect: Expect, numbers: Numbers) -> None:
    """A model with weights offloaded to the CPU computes on the device, twice."""
    import accelerate

    _whole(accelerate.cpu_offload, device, expect, numbers)


@check("offload.disk", stands_for=SEED, when=has_accelerate)
def test_disk(
    device: torch.device, expect: Expect, numbers: Numbers, tmp_path: Path
) -> None:
    """A model with weights offloaded to disk computes on the device, twice."""
    import accelerate

    def disk_offload(model: TiedTransformer, **more: Any) -> torch.nn.Module:
        return accelerate.disk_offload(model, tempfile.mkdtemp(dir=tmp_path), **more)

    _whole(disk_offload, device, expect, numbers)


def _whole(
    offload: Callable[..., Any], device: torch.device, expect: Expect, numbers: Numbers
) -> None:
    """Check a function that offloads the whole model; in bfloat16 with its buffers."""
    kind = offload.__name__
    for how, name in _names(device, expect).items():
        model = offload(_model(), execution_device=name)
        _twice(model, f"{kind}{how}", device, numbers, {"": "disk"})
    model = _model(torch.bfloat16)
    if expect.release("accelerate") >= (1, 0):
        model = offload(model, execution_device=device, offload_buffers=True)
    else:  # it looks for buffers that are not saved, too, and fails
        model = offload(model, execution_device=device)
    _twice(model, f"{kind} bfloat16", device, numbers, {"": "disk"})


@check("offload.tied", stands_for=SEED, when=has_accelerate)
def test_tied(
    device: torch.device, expect: Expect, numbers: Numbers, tmp_path: Path
) -> None:
    """A dispatched model with tied weights computes twice, the device given by name or number."""
    import accelerate

    filed = 0
    for how, name in _names(device, expect).items():
        for kind, place in {"cpu": "cpu", "disk": "disk", "kept": name}.items():
            layers = dict.fromkeys(PARTS, name)
            layers |= dict.fromkeys(("embedding", "blocks.1", "head"), place)
            folder = tempfile.mkdtemp(dir=tmp_path)
            model = accelerate.dispatch_model(
                _model(), layers, main_device=name, offload_dir=folder, force_hooks=True
            )
            _twice(model, f"{kind} to {device}{how}", device, numbers, layers)
            filed += len(_tied_map(model.head))
    # Before 0.25 there is no such map.
    if not filed and hasattr(model.head._hf_hook, "tied_params_map"):
        words = f"Accelerate {accelerate.__version__} files no tied weight"
        fail("tied-path-not-taken", f"{words}: nothing is checked", [words])


@check("offload.checkpoint", stands_for=SEED, when=has_accelerate, full=True)
def test_checkpoint(
    device: torch.device, expect: Expect, numbers: Numbers, tmp_path: Path
) -> None:
    """A model is loaded from safetensors to all devices, CPU and disk, by a map and by "auto"."""
    import accelerate
    from safetensors.torch import save_file

    named = dict.fromkeys(PARTS, str(device))
    named |= {"embedding": "cpu", "blocks.1": "disk", "head": "cpu"}
    ways: dict[str, Any] = {"named": named}
    if device.type == "cpu" or _takes_numbers(device, expect):
        ways["auto"] = "auto"
    weights = dict(_weights(torch.float32))
    del weights["head.weight"]  # it is tied
    file = str(tmp_path / "model.safetensors")
    save_file(weights, file, metadata={"format": "pt"})
    for way, layers in ways.items():
        numbers.step(f"load {way}")
        with accelerate.init_empty_weights():
            model = TiedTransformer().eval()
        model.tie_weights()
        memory = _memory(model, device)
        model = accelerate.load_checkpoint_and_dispatch(
            model,
            file,
            device_map=layers,
            max_memory=memory,
            no_split_module_classes=["Block"],
            offload_folder=tempfile.mkdtemp(dir=tmp_path),
        )
        places = model.hf_device_map
        if way == "auto":
            unused = {*memory, "disk"}.difference(places.values())
            _accept([f"the automatic map leaves out: {place}" for place in unused])
        _twice(model, way, device, numbers, places)


def _names(device: torch.device, expect: Expect) -> dict[str, Any]:
    """Return the ways to name the device: as an object, as text and as a number."""
    if device.type == "cpu":
        return {"": device}  # to Accelerate the text "cpu" means: not offloaded
    number = device.index or 0
    names: dict[str, Any] = {"": device, " by text": f"{device.type}:{number}"}
    if _takes_numbers(device, expect):
        names[" by number"] = number
    return names


def _takes_numbers(device: torch.device, expect: Expect) -> bool:
    """Return whether the bare number of a device means this one to Accelerate.

    Before 1.0 it hands it to ``.to()``, where torch 2.1, as in ipex-llm's stack, reads ``cuda:0``.
    """
    if devices.kind(device) in ("cpu", "mps"):  # of a Mac it knows the name only
        return False
    if expect.release("accelerate") >= (1, 0):
        return True
    try:
        moved = torch.empty(0).to(device.index or 0)
        return bool(moved.device == device)
    except (RuntimeError, AssertionError):  # "Torch not compiled with CUDA enabled"
        return False


def _memory(model: TiedTransformer, device: torch.device) -> dict[Any, int]:
    """Return bytes for the embedding and a block on the first device, and a block on each other.

    On the first device and on the CPU Accelerate keeps space to bring the largest layer in.
    """
    block = sum(weight.nbytes for weight in model.blocks[0].parameters())
    largest = max(model.embedding.weight.nbytes, block)
    main = 2 * largest + int(1.2 * block)
    if device.type == "cpu":
        return {"cpu": main}
    first, *others = devices.alike(device)
    memory: dict[Any, int] = {first: main}
    if others:
        memory[others[0]] = int(1.2 * block)
    memory["cpu"] = int(2.4 * block)
    return memory


@functools.cache
def _weights(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return dict(filled(TiedTransformer()).to(dtype).state_dict())


def _model(dtype: torch.dtype = torch.float32) -> Any:
    # The weights outlive their move: Accelerate takes what comes to lie at the address of a tied
    # weight for that weight.
    model = TiedTransformer().to(dtype).eval()
    model.load_state_dict(_weights(dtype), assign=True)
    model.tie_weights()
    return model


def _tokens(length: int) -> torch.Tensor:
    return torch.arange(4 * length).reshape(4, length) * 37 % 1100


@functools.cache
def _right(dtype: torch.dtype) -> list[torch.Tensor]:
    model = _model(dtype).double()
    with torch.no_grad():
        return [model(_tokens(length)) for length in LENGTHS]


def _twice(
    model: Any, name: str, device: torch.device, numbers: Numbers, places: Places
) -> None:
    """Check two forward passes, where they compute, and where they leave the weights."""
    wrong = []

    def look(_block: object, _given: object, found: torch.Tensor) -> None:
        if found.device.type != device.type:
            wrong.append(f"a block computed on {found.device}")

    for block in model.blocks:
        block.register_forward_hook(look)
    dtype = model.norm.weight.dtype
    for turn, right in enumerate(_right(dtype)):
        step = f"{name}, pass {turn + 1}"
        numbers.step(step)
        try:
            with torch.no_grad():
                result = model(_tokens(LENGTHS[turn]))
                error = reference.error(result, right)
        except KeyError as problem:
            fail(
                "accelerate-offload-keyerror",
                f"{step}: KeyError {problem}",
                [f"KeyError: {problem}", f"torch {torch.__version__}"],
            )
        numbers.within(step, error, reference.LIMITS[dtype])
        wrong += _misplaced(model, device, places) + _tied_wrongly(model, places)
    _accept(wrong)


def _accept(wrong: list[str]) -> None:
    fail_if(
        wrong,
        "tensors-elsewhere",
        cause="Accelerate does not keep to the map of the model, or to the memory it may use",
        remedy="give the device as torch.device, not as text; use the locked Accelerate",
    )


def _misplaced(
    model: TiedTransformer, device: torch.device, places: Places
) -> list[str]:
    """Return the weights that a forward pass left elsewhere than in their places."""
    wrong = []
    for part, weight in model.named_parameters():
        (place,) = [places[name] for name in places if part.startswith(name)]
        if isinstance(place, int):
            place = torch.device(device.type, place)
        if place in ("cpu", "disk"):
            # On a CPU target what is "on the CPU" may as well stay there.
            right = weight.is_meta or place == device.type
        else:
            right = weight.device == torch.device(place)
        if not right:
            problem = f"is on {weight.device} after a pass, its place is {place}"
            wrong.append(f"{part} {problem}")
    return wrong


def _tied_wrongly(model: TiedTransformer, places: Places) -> list[str]:
    """Return how the tied weight is kept more than once after a forward pass."""
    wrong = []
    layers = (model.embedding, model.head)
    if all(layer.weight.is_meta and any(_tied_map(layer).values()) for layer in layers):
        wrong.append("the tied weight is still on the device after a pass")
    if "disk" in (places.get("head"), places.get("")):
        return wrong  # there each name has a file
    addresses = set()
    for layer in layers:
        offloaded = _of_hook(layer, "weights_map")
        weight = offloaded["weight"] if offloaded else layer.weight
        addresses.add(weight.data_ptr())
    if len(addresses) > 1:
        wrong.append("there are two copies of the tied weight")
    return wrong


def _tied_map(layer: Any) -> Any:
    return _of_hook(layer, "tied_params_map") or {}


def _of_hook(layer: Any, name: str) -> Any:
    """Return an attribute of Accelerate's hook of a layer, None without it."""
    return getattr(getattr(layer, "_hf_hook", None), name, None)
