"""Faults of offload, of ipex-llm's own code and of the identity of modules; see `faults`."""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

# `faults` is a module of the tests, and at the top in the environment
faults = sys.modules[__name__.removesuffix("_offload")]
fault, module, replaced = faults.fault, faults.module, faults.replaced


# Identity -----------------------------------------------------------------------------------------


@contextmanager
def packages(*files: tuple[str, str]):
    """Let site-packages be a folder with these files beside its own; nothing is written there."""
    checks = module("smoke.checks.test_identity")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files:
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        sites = {*checks.SITES, Path(folder)}
        with patch.object(checks, "SITES", sites):
            yield


@fault("identity.code", "")
def pth_files_that_only_name_folders_and_those_of_editable_projects():
    lines = "/home/somebody/project\n# import nothing\n"
    finder = (
        "import __editable___mine_0_1_finder; __editable___mine_0_1_finder.install()\n"
    )
    with packages(("mine.pth", lines), ("__editable__.mine-0.1.pth", finder)):
        yield


# Selection ----------------------------------------------------------------------------------------


@contextmanager
def mapped(line: str):
    """Let a library seem to be mapped into the process, in addition to its own."""
    checks = module("smoke.checks.test_selection")
    own = Path(MAPS).read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".maps") as file:
        file.write(f"{own}7f00-7f01 r-xp 00000000 08:01 42    {line}\n")
        file.flush()

        def path(*parts: str) -> Path:
            if parts == (MAPS,):
                return Path(file.name)
            return Path(*parts)

        with patch.object(checks, "Path", path):
            yield


MAPS = "/proc/self/maps"


@fault("selection.clean", "foreign-code-loaded")
def a_second_openmp_runtime_is_loaded():
    with mapped("/opt/intel/oneapi/compiler/2026.0/lib/libiomp5.so"):
        yield


@fault("selection.clean", "foreign-code-loaded")
def a_library_of_another_accelerator_is_loaded():
    with mapped("/opt/intel/oneapi/compiler/2026.0/lib/libsycl.so.9"):
        yield


@fault(
    "selection.clean", "", expect={"packages": {"nvidia-cuda-runtime-cu12": "12.8.90"}}
)
def torch_for_cuda_has_the_libraries_that_it_locks():
    home = Path(sys.prefix).resolve()
    with mapped(f"{home}/lib/libcudart.so.12"):
        yield


@fault("selection.clean", "")
def mkl_brings_an_openmp_runtime_of_the_environment():
    with mapped(f"{Path(sys.prefix).resolve()}/lib/libiomp5.so"):
        yield


# ipex-llm's low-bit models ------------------------------------------------------------------------

CODES = {"sym_int4": -8, "sym_int8": 127}
BLOCK = 64


def get_block_size(_name: str) -> int:
    return BLOCK


def ggml_convert_qtype(weight, kind: str):
    """Quantise as ipex-llm 2.2's library for the CPU does."""
    torch = module("torch")
    numbers = weight.detach().float()
    blocks = numbers.reshape(-1, BLOCK)
    largest = blocks.abs().argmax(1, keepdim=True)
    scale = blocks.gather(1, largest) / CODES[kind]
    if kind == "sym_int8":
        codes = (blocks / scale).round()
        packed = codes.to(torch.int8).view(torch.uint8)
    else:
        scale = scale.half()
        codes = (blocks / scale).round().clamp(-8, 7)
        halves = (codes + 8).to(torch.uint8)
        low, high = halves.chunk(2, 1)
        packed = low | (high << 4)
    return torch.cat([scale.view(torch.uint8), packed], 1).flatten()


def ggml_matmul_src1_x_src0_t(data, x, shape, kind: str):
    torch = module("torch")
    if kind == "sym_int4":
        rows = data.view(-1, 34)
        scale, packed = rows[:, :2], rows[:, 2:]
        scale = scale.contiguous().view(torch.float16)
        halves = torch.cat([packed & 15, packed >> 4], 1)
        codes = halves.to(torch.int8) - 8
    else:
        rows = data.view(-1, 68)
        scale, codes = rows[:, :4], rows[:, 4:]
        scale = scale.contiguous().view(torch.float32)
        codes = codes.contiguous().view(torch.int8)
    weight = codes.float() * scale.float()
    return x @ weight.view(shape).T


def to_bfloat16(_model, given):
    x, *_ = given
    return (x.bfloat16(),)


def optimize_model(model, low_bit: str | None = None):
    torch = module("torch")
    home = sys.modules[LINEAR]

    class LowBitLinear(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, plain) -> None:
            super().__init__()
            self.shape = plain.weight.shape
            self.bias = plain.bias
            data = home.ggml_convert_qtype(plain.weight, low_bit)
            self.weight = torch.nn.Parameter(data, requires_grad=False)

        def forward(self, x):
            *outer, last = x.shape
            rows = x.reshape(-1, last)
            data = self.weight.data
            found = home.ggml_matmul_src1_x_src0_t(data, rows, self.shape, low_bit)
            found = found.view(*outer, -1)
            if self.bias is None:
                return found
            return found + self.bias

    if low_bit == "bf16":
        model.to(torch.bfloat16)
        model.register_forward_pre_hook(to_bfloat16)
    elif low_bit:
        replace_linear(model, LowBitLinear)
    return model


def replace_linear(model, kind) -> None:
    torch = module("torch")
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear:
                setattr(parent, name, kind(child))


class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(folder: str, load_in_low_bit: str):
        transformers = module("transformers")
        plain = transformers.AutoModelForCausalLM.from_pretrained(folder)
        model = optimize_model(plain.float(), load_in_low_bit)
        saved = {
            "folder": folder,
            "low_bit": load_in_low_bit,
            "state": model.state_dict(),
        }

        def save(path: str) -> None:
            module("torch").save(saved, path)

        model.save_low_bit = save
        return model

    @classmethod
    def load_low_bit(cls, path: str):
        saved = module("torch").load(path)
        model = cls.from_pretrained(saved["folder"], saved["low_bit"])
        model.load_state_dict(saved["state"])
        return model


def low_bit_modules() -> dict[str, ModuleType]:
    """Return stand-ins for the modules of ipex-llm that the checks of low-bit models import."""
    package = ModuleType("ipex_llm")
    package.optimize_model = optimize_model  # type: ignore[attr-defined]
    transformers = ModuleType("ipex_llm.transformers")
    transformers.AutoModelForCausalLM = AutoModelForCausalLM  # type: ignore[attr-defined]
    linear = ModuleType(LINEAR)
    for function in (get_block_size, ggml_convert_qtype, ggml_matmul_src1_x_src0_t):
        setattr(linear, function.__name__, function)
    modules = (package, transformers, linear)
    return {made.__name__: made for made in modules}


LINEAR = "ipex_llm.transformers.low_bit_linear"
LOW_BIT: dict[str, Any] = {"expect": {"packages": {"ipex-llm": "2.2.0"}}}


@fault("low-bit.linear", "", **LOW_BIT)
def low_bit_models_are_right():
    with patch.dict(sys.modules, low_bit_modules()):
        yield


@fault("low-bit.linear", "wrong-numbers", **LOW_BIT)
def the_halves_of_the_bytes_are_swapped():
    def spoil(convert, weight, kind: str):
        data = convert(weight, kind)
        if kind != "sym_int4":
            return data
        blocks = weight.numel() // BLOCK
        rows = data.clone().view(blocks, -1)
        codes = rows[:, 2:]
        low, high = codes & 15, codes >> 4
        rows[:, 2:] = high | (low << 4)
        return rows.flatten()

    with (
        patch.dict(sys.modules, low_bit_modules()),
        faults.changed(LINEAR, "ggml_convert_qtype", spoil),
    ):
        yield


@fault("low-bit.models", "wrong-numbers", **LOW_BIT)
def a_saved_block_comes_back_otherwise():
    def change(load, *args):
        model = load(*args)
        weights = []
        for part in model.parameters():
            if str(part.dtype) == "torch.uint8":
                weights.append(part)
        data = weights[3].data.view(-1)
        data[340:680] = data[:340].clone()
        return model

    home = "ipex_llm.transformers:AutoModelForCausalLM"
    with (
        patch.dict(sys.modules, low_bit_modules()),
        faults.changed(home, "load_low_bit", change),
    ):
        yield


# Offload ------------------------------------------------------------------------------------------


def read_safetensors(device_type: str) -> None:
    """Let Accelerate read files for a device that safetensors does not know, by the CPU."""
    modeling = module("accelerate.utils.modeling")
    opened = modeling.safe_open
    loaded = modeling.safe_load_file

    class Opened:
        def __init__(self, file, framework: str, device="cpu") -> None:
            self.file = opened(file, framework=framework)
            self.device = device

        def __enter__(self):
            self.file.__enter__()
            return self

        def __exit__(self, *error: object) -> None:
            self.file.__exit__(*error)

        def get_tensor(self, name: str):
            tensor = self.file.get_tensor(name)
            return tensor.to(self.device)

        def __getattr__(self, name: str):
            return getattr(self.file, name)

    def load_file(file, device="cpu"):
        tensors = loaded(file)
        return {name: tensor.to(device) for name, tensor in tensors.items()}

    modeling.safe_open = Opened
    modeling.safe_load_file = load_file


BIG, HOOK = "accelerate.big_modeling", "accelerate.hooks:AlignDevicesHook"
LOADER = "accelerate.utils.offload:OffloadedWeightsLoader"


@replaced("offload.tied", "tied-path-not-taken", HOOK, "pre_forward", "pretend")
def tied_weights_are_not_shared_any_more(pre_forward, hook, *args, **more):
    hook.tied_params_map = {}
    hook.tied_params_names = set()
    return pre_forward(hook, *args, **more)


@replaced("offload.tied", "tensors-elsewhere", HOOK, "post_forward", "pretend")
def a_tied_weight_stays_on_the_device(post_forward, hook, *args):
    hook.tied_pointers_to_remove = set()
    return post_forward(hook, *args)


@replaced("offload.cpu", "tensors-elsewhere", HOOK, "post_forward", "pretend")
def offloaded_weights_stay_on_the_device(_post_forward, _hook, _owner, output):
    return output


@replaced(
    "offload.tied", "tensors-elsewhere", "accelerate", "dispatch_model", "pretend"
)
def an_offloaded_tied_weight_is_kept_twice(dispatch, model, *args, **more):
    weight = model.embedding.weight
    model.head.weight = type(weight)(weight.detach().clone())
    return dispatch(model, *args, **more)


READ: list[str] = []


@replaced("offload.disk", "wrong-numbers", LOADER, "__getitem__", "pretend")
def disk_offload_reads_the_wrong_file_in_the_second_pass(get, loader, name: str):
    READ.append(name)
    if name == "blocks.3.inputs.bias" and READ.count(name) > 1:
        name = "blocks.2.inputs.bias"
    return get(loader, name)


@replaced(
    "offload.checkpoint", "tensors-elsewhere", BIG, "infer_auto_device_map", "pretend"
)
def the_automatic_map_ignores_the_memory(infer, model, **more):
    more["max_memory"] = {0: 2**30}
    return infer(model, **more)


MODELING = "accelerate.utils.modeling"


@replaced("offload.checkpoint", "wrong-numbers", MODELING, "load_state_dict", "pretend")
def two_blocks_of_a_checkpoint_change_places(load, *args, **more):
    weights = load(*args, **more)
    first, second = "blocks.2.inputs.bias", "blocks.3.inputs.bias"
    if first in weights and second in weights:
        weights[first], weights[second] = weights[second], weights[first]
    return weights
