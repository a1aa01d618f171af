"""Faults of offload, of ipex-llm's own code and of the identity of modules; see `faults`."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.smoke import faults
    from tests.smoke.faults import fault, module
else:  # `faults` is a module of the tests, and at the top in the environment
    faults = sys.modules[__name__.removesuffix("_offload")]
    fault, module = faults.fault, faults.module


@contextmanager
def changed(home: str, name: str, change: Callable[..., Any]) -> Iterator[None]:
    """Let a function of a library be another one, which is given the original and its arguments."""
    place, _, attribute = home.partition(":")
    owner = getattr(module(place), attribute) if attribute else module(place)
    original = getattr(owner, name)

    def spoiled(*args: Any, **more: Any) -> Any:
        return change(original, *args, **more)

    with patch.object(owner, name, spoiled):
        yield


# Identity -----------------------------------------------------------------------------------------


class Finder:
    """Somebody's import hook; it finds nothing."""

    def find_spec(self, *_args: object) -> None:
        return None


@fault("identity.code", "foreign-code-loaded")
def a_finder_that_nobody_knows_is_asked_first() -> Iterator[None]:
    with patch.object(sys, "meta_path", [Finder(), *sys.meta_path]):
        yield


@fault("identity.code", "foreign-code-loaded")
def a_path_hook_that_nobody_knows_reads_folders() -> Iterator[None]:
    def hook(_path: str) -> None:
        raise ImportError

    with patch.object(sys, "path_hooks", [*sys.path_hooks, hook]):
        yield


@fault("identity.code", "foreign-code-loaded")
def a_module_of_the_start_is_in_no_record() -> Iterator[None]:
    name = "sitecustomize"
    fake = ModuleType(name)
    fake.__file__ = str(Path(sys.prefix, "lib", f"{name}.py"))
    with patch.dict(sys.modules, {name: fake}):
        yield


@contextmanager
def packages(*files: tuple[str, str]) -> Iterator[None]:
    """Let site-packages be a folder with these files beside its own; nothing is written there."""
    checks = module("smoke.checks.test_identity")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files:
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_text(text, encoding="utf-8")
        with patch.object(checks, "SITES", {*checks.SITES, Path(folder)}):
            yield


@fault("identity.code", "foreign-code-loaded")
def a_pth_file_of_nobody_runs_code() -> Iterator[None]:
    with packages(("cuda_to_xpu.pth", "/nowhere\nimport os; os.environ['X'] = '1'\n")):
        yield


@fault("identity.code", "foreign-code-loaded")
def a_known_pth_file_got_another_line() -> Iterator[None]:
    with packages(("distutils-precedence.pth", "import os; exec('import torch')\n")):
        yield


@fault("none", "", only=("identity.code",))
def pth_files_that_only_name_folders_and_those_of_editable_projects() -> Iterator[None]:
    lines = "/home/somebody/project\n# import nothing\n"
    finder = (
        "import __editable___mine_0_1_finder; __editable___mine_0_1_finder.install()\n"
    )
    with packages(("mine.pth", lines), ("__editable__.mine-0.1.pth", finder)):
        yield


@fault("identity.code", "foreign-code-loaded", only=("identity.python",))
def the_metadata_of_torch_is_of_another_version() -> Iterator[None]:
    with faults.torch_says("__version__ = '2.12.1+cpu'\ncuda: Optional[str] = None\n"):
        yield


@fault("identity.code", "foreign-code-loaded")
def torch_says_another_version_than_its_file() -> Iterator[None]:
    with patch.object(module("torch"), "__version__", "2.13.0+cu130"):
        yield


@contextmanager
def edited(name: str) -> Iterator[None]:
    """Let a file of site-packages have another hash than its RECORD says."""
    checks = module("smoke.checks.test_identity")
    sha256 = checks.hashlib.sha256

    def hashed(content: bytes) -> Any:
        right = any(Path(home, name).read_bytes() == content for home in checks.SITES)
        return sha256(content + b"#" * right)

    with patch.object(checks.hashlib, "sha256", hashed):
        yield


@fault("identity.code", "foreign-code-loaded")
def the_version_file_of_torch_was_edited() -> Iterator[None]:
    with edited("torch/version.py"):
        yield


# Selection ----------------------------------------------------------------------------------------


def _wrapped(function: Any) -> Any:
    """Do what somebody's sitecustomize does: keep the name, and do something else."""

    @functools.wraps(function)
    def wrapper(*args: Any, **more: Any) -> Any:
        return function(*args, **more)

    return wrapper


@fault("selection.clean", "foreign-code-loaded")
def the_count_of_cuda_devices_is_wrapped() -> Iterator[None]:
    cuda = module("torch").cuda
    with patch.object(cuda, "device_count", _wrapped(cuda.device_count)):
        yield


@fault("selection.clean", "foreign-code-loaded")
def cuda_is_mapped_to_xpu() -> Iterator[None]:
    torch = module("torch")
    with patch.object(torch.cuda, "get_device_name", torch.xpu.get_device_name):
        yield


@fault("selection.clean", "foreign-code-loaded")
def tensors_move_to_xpu_when_they_are_sent_to_cuda() -> Iterator[None]:
    tensor = module("torch").Tensor
    with patch.object(tensor, "cuda", tensor.xpu):
        yield


@fault("selection.clean", "foreign-code-loaded")
def somebody_wraps_module_to() -> Iterator[None]:
    layer = module("torch").nn.Module
    with patch.object(layer, "to", _wrapped(layer.to)):
        yield


@contextmanager
def mapped(line: str) -> Iterator[None]:
    """Let a library seem to be mapped into the process, in addition to its own."""
    checks = module("smoke.checks.test_selection")
    own = Path("/proc/self/maps").read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".maps") as file:
        file.write(f"{own}7f00-7f01 r-xp 00000000 08:01 42    {line}\n")
        file.flush()
        with patch.object(
            checks, "Path", lambda *a: Path(file.name) if a == (MAPS,) else Path(*a)
        ):
            yield


MAPS = "/proc/self/maps"


@fault("selection.clean", "foreign-code-loaded")
def a_second_openmp_runtime_is_loaded() -> Iterator[None]:
    with mapped("/opt/intel/oneapi/compiler/2026.0/lib/libiomp5.so"):
        yield


@fault("none", "", only=("selection.clean",))
def mkl_brings_an_openmp_runtime_of_the_environment() -> Iterator[None]:
    with mapped(f"{Path(sys.prefix).resolve()}/lib/libiomp5.so"):
        yield


NVIDIA = {"nvidia-cudnn-cu13": "9.15.1.9", "nvidia-nccl-cu13": "2.28.9"}


@contextmanager
def nvidia(cudnn: int, nccl: tuple[int, ...]) -> Iterator[None]:
    torch = module("torch")
    with (
        patch.object(torch.backends.cudnn, "version", lambda: cudnn),
        patch.object(torch.cuda.nccl, "version", lambda: nccl),
    ):
        yield


@fault("none", "", only=("selection.clean",), expect={"packages": NVIDIA})
def cudnn_and_nccl_are_those_of_the_lock() -> Iterator[None]:
    with nvidia(91501, (2, 28, 9)):
        yield


@fault(
    "selection.clean",
    "foreign-code-loaded",
    only=("identity.python",),
    expect={"packages": NVIDIA},
)
def the_systems_cudnn_is_loaded() -> Iterator[None]:
    with nvidia(90100, (2, 28, 9)):
        yield


@fault(
    "selection.clean",
    "foreign-code-loaded",
    only=("identity.python",),
    expect={"packages": NVIDIA},
)
def another_nccl_than_the_wheels() -> Iterator[None]:
    with nvidia(91501, (2, 27, 7)):
        yield


# ipex-llm's low-bit models ------------------------------------------------------------------------

CODES = {"sym_int4": -8, "sym_int8": 127}
BLOCK = 64


def get_block_size(_name: str) -> int:
    return BLOCK


def ggml_convert_qtype(weight: Any, kind: str) -> Any:
    """Quantise as ipex-llm 2.2's library for the CPU does."""
    torch = module("torch")
    blocks = weight.detach().float().reshape(-1, BLOCK)
    scale = blocks.gather(1, blocks.abs().argmax(1, keepdim=True)) / CODES[kind]
    if kind == "sym_int8":
        codes = (blocks / scale).round().to(torch.int8).view(torch.uint8)
        return torch.cat([scale.view(torch.uint8), codes], 1).flatten()
    scale = scale.half()
    codes = ((blocks / scale).round().clamp(-8, 7) + 8).to(torch.uint8)
    packed = codes[:, : BLOCK // 2] | (codes[:, BLOCK // 2 :] << 4)
    return torch.cat([scale.view(torch.uint8), packed], 1).flatten()


def ggml_matmul_src1_x_src0_t(data: Any, x: Any, shape: Any, kind: str) -> Any:
    torch = module("torch")
    rows = data.view(-1, 34 if kind == "sym_int4" else 68)
    if kind == "sym_int4":
        codes = torch.cat([rows[:, 2:] & 15, rows[:, 2:] >> 4], 1).to(torch.int8) - 8
        scale = rows[:, :2].contiguous().view(torch.float16)
    else:
        codes = rows[:, 4:].contiguous().view(torch.int8)
        scale = rows[:, :4].contiguous().view(torch.float32)
    return x @ (codes.float() * scale.float()).view(shape).T


def optimize_model(model: Any, low_bit: str | None = None) -> Any:
    torch, home = module("torch"), sys.modules["ipex_llm.transformers.low_bit_linear"]

    class LowBitLinear(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, plain: Any) -> None:
            super().__init__()
            self.shape, self.bias = plain.weight.shape, plain.bias
            data = home.ggml_convert_qtype(plain.weight, low_bit)
            self.weight = torch.nn.Parameter(data, requires_grad=False)

        def forward(self, x: Any) -> Any:
            rows = x.reshape(-1, x.shape[-1])
            found = home.ggml_matmul_src1_x_src0_t(
                self.weight.data, rows, self.shape, low_bit
            )
            found = found.view(*x.shape[:-1], -1)
            return found if self.bias is None else found + self.bias

    if low_bit == "bf16":
        model.to(torch.bfloat16).register_forward_pre_hook(
            lambda _m, given: (given[0].bfloat16(),)
        )
    elif low_bit:
        for parent in [*model.modules()]:
            for name, child in [*parent.named_children()]:
                if type(child) is torch.nn.Linear:
                    setattr(parent, name, LowBitLinear(child))
    return model


class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(folder: str, load_in_low_bit: str) -> Any:
        transformers = module("transformers")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder).float()
        model = optimize_model(model, load_in_low_bit)
        saved = {
            "folder": folder,
            "low_bit": load_in_low_bit,
            "state": model.state_dict(),
        }
        model.save_low_bit = lambda path: module("torch").save(saved, path)
        return model

    @classmethod
    def load_low_bit(cls, path: str) -> Any:
        saved = module("torch").load(path)
        model = cls.from_pretrained(saved["folder"], saved["low_bit"])
        model.load_state_dict(saved["state"])
        return model


def low_bit_modules() -> dict[str, ModuleType]:
    """Return stand-ins for the modules of ipex-llm that the checks of low-bit models import."""
    found = {name: ModuleType(name) for name in ("ipex_llm", "ipex_llm.transformers")}
    linear = ModuleType("ipex_llm.transformers.low_bit_linear")
    for function in (get_block_size, ggml_convert_qtype, ggml_matmul_src1_x_src0_t):
        setattr(linear, function.__name__, function)
    found["ipex_llm"].optimize_model = optimize_model  # type: ignore[attr-defined]
    found["ipex_llm.transformers"].AutoModelForCausalLM = AutoModelForCausalLM  # type: ignore[attr-defined]
    return found | {linear.__name__: linear}


@contextmanager
def low_bit_stack() -> Iterator[None]:
    """Let ipex-llm be there: its own code where it is installed, stand-ins elsewhere."""
    own = importlib.util.find_spec("ipex_llm") is not None
    with nullcontext() if own else patch.dict(sys.modules, low_bit_modules()):
        yield


IPEX_LLM_UTILS = "ipex_llm.transformers.models.utils"
LINEAR = "ipex_llm.transformers.low_bit_linear"
LOW_BIT: dict[str, Any] = {
    "expect": {"packages": {"ipex-llm": "2.2.0"}},
    "only": ("identity.python",),
}


@fault("none", "", expect=LOW_BIT["expect"], only=("low-bit.linear", "low-bit.models"))
def low_bit_models_are_right() -> Iterator[None]:
    with low_bit_stack():
        yield


@contextmanager
def stored(kind: tuple[object, ...], change: Callable[[Any], Any]) -> Iterator[None]:
    """Change the bytes of weights that are quantised to a format, by block."""

    def spoil(convert: Any, weight: Any, given: Any, **more: Any) -> Any:
        data = convert(weight, given, **more)
        length = data.numel() * BLOCK // weight.numel()
        return (
            change(data.view(-1, length).clone()).flatten() if given in kind else data
        )

    with low_bit_stack(), changed(LINEAR, "ggml_convert_qtype", spoil):
        yield


INT4, INT8 = (2, "sym_int4"), (8, "sym_int8")  # ipex-llm's numbers, and the names


@fault("low-bit.linear", "wrong-numbers", **LOW_BIT)
def the_halves_of_the_bytes_are_swapped() -> Iterator[None]:
    def change(rows: Any) -> Any:
        rows[:, 2:] = (rows[:, 2:] >> 4) | (rows[:, 2:] << 4)
        return rows

    with stored(INT4, change):
        yield


@fault("low-bit.linear", "wrong-numbers", **LOW_BIT)
def one_block_of_four_bits_has_the_other_sign() -> Iterator[None]:
    def change(rows: Any) -> Any:
        rows[1000, 1] ^= 128  # the sign of its scale
        return rows

    with stored(INT4, change):
        yield


@fault("low-bit.models", "wrong-numbers", **LOW_BIT)
def one_model_type_pairs_its_channels_otherwise() -> Iterator[None]:
    def pairs(x: Any) -> Any:
        return module("torch").stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)

    def optimize(optimize: Any, model: Any, **more: Any) -> Any:
        found = optimize(model, **more)
        if "Qwen2" in type(model).__name__:
            forward = type(found.model.layers[0].self_attn).forward
            names = [
                vars(each)
                for name, each in sys.modules.items()
                if name == IPEX_LLM_UTILS
            ]
            names.append(inspect.unwrap(forward).__globals__)
            stack.enter_context(patch.dict(names[0], rotate_half=pairs))
        return found

    with (
        ExitStack() as stack,
        low_bit_stack(),
        changed("ipex_llm", "optimize_model", optimize),
    ):
        yield


@fault("low-bit.models", "wrong-numbers", **LOW_BIT)
def a_saved_block_comes_back_otherwise() -> Iterator[None]:
    def change(load: Any, *args: Any, **more: Any) -> Any:
        model = load(*args, **more)
        weights = [
            each for each in model.parameters() if str(each.dtype) == "torch.uint8"
        ]
        weights[3].data.view(-1)[340:680] = weights[3].data.view(-1)[:340].clone()
        return model

    home = "ipex_llm.transformers:AutoModelForCausalLM"
    with low_bit_stack(), changed(home, "load_low_bit", change):
        yield


# Offload ------------------------------------------------------------------------------------------


def read_safetensors(device_type: str) -> None:
    """Let Accelerate read files for a device that safetensors does not know, by the CPU."""
    modeling = module("accelerate.utils.modeling")
    opened, loaded = modeling.safe_open, modeling.safe_load_file

    class Opened:
        def __init__(self, file: Any, framework: str, device: Any = "cpu") -> None:
            self.file, self.device = opened(file, framework=framework), device

        def __enter__(self) -> Any:
            self.file.__enter__()
            return self

        def __exit__(self, *error: object) -> None:
            self.file.__exit__(*error)

        def get_tensor(self, name: str) -> Any:
            return self.file.get_tensor(name).to(self.device)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    modeling.safe_open = Opened
    modeling.safe_load_file = lambda file, device="cpu": {
        name: tensor.to(device) for name, tensor in loaded(file).items()
    }


BIG, HOOK = "accelerate.big_modeling", "accelerate.hooks:AlignDevicesHook"
LOADER = "accelerate.utils.offload:OffloadedWeightsLoader"


@fault("offload.tied", "tied-path-not-taken", "pretend")
def tied_weights_are_not_shared_any_more() -> Iterator[None]:
    def change(pre_forward: Any, hook: Any, *args: Any, **more: Any) -> Any:
        hook.tied_params_map, hook.tied_params_names = {}, set()
        return pre_forward(hook, *args, **more)

    with changed(HOOK, "pre_forward", change):
        yield


@fault("offload.tied", "tensors-elsewhere", "pretend")
def a_tied_weight_stays_on_the_device() -> Iterator[None]:
    def change(post_forward: Any, hook: Any, *args: Any) -> Any:
        hook.tied_pointers_to_remove = set()
        return post_forward(hook, *args)

    with changed(HOOK, "post_forward", change):
        yield


@fault("offload.tied", "tensors-elsewhere", "pretend")
def a_tied_weight_is_offloaded_twice() -> Iterator[None]:
    def change(extract: Any, *args: Any) -> Any:
        return {name: tensor.clone() for name, tensor in extract(*args).items()}

    with changed(BIG, "extract_submodules_state_dict", change):
        yield


@fault("offload.cpu", "tensors-elsewhere", "pretend")
def offloaded_weights_stay_on_the_device() -> Iterator[None]:
    with changed(
        HOOK, "post_forward", lambda _original, _hook, _module, output: output
    ):
        yield


@fault("offload.disk", "wrong-numbers", "pretend")
def disk_offload_reads_the_wrong_file_in_the_second_pass() -> Iterator[None]:
    read: list[str] = []

    def change(get: Any, loader: Any, name: str) -> Any:
        read.append(name)
        again = name == "blocks.3.inputs.bias" and read.count(name) > 1
        return get(loader, "blocks.2.inputs.bias" if again else name)

    with changed(LOADER, "__getitem__", change):
        yield


@fault("offload.checkpoint", "tensors-elsewhere", "pretend")
def the_automatic_map_ignores_the_memory() -> Iterator[None]:
    def change(infer: Any, model: Any, **more: Any) -> Any:
        return infer(model, **more | {"max_memory": {0: 2**30}})

    with changed(BIG, "infer_auto_device_map", change):
        yield


@fault("offload.checkpoint", "tensors-elsewhere", "pretend")
def the_automatic_map_leaves_the_second_device_out() -> Iterator[None]:
    import pretend

    def change(infer: Any, model: Any, **more: Any) -> Any:
        return {
            part: place or 0 if place != 1 else 0
            for part, place in infer(model, **more).items()
        }

    with (
        patch.dict(pretend.SAYS, others=[pretend.SAYS]),
        changed(BIG, "infer_auto_device_map", change),
    ):
        yield


@fault("none", "", "pretend", only=("offload.checkpoint", "offload.tied"))
def a_model_is_spread_over_two_devices() -> Iterator[None]:
    import pretend

    with patch.dict(pretend.SAYS, others=[pretend.SAYS]):
        yield


@fault("offload.checkpoint", "op-fails", "pretend")
def a_weight_of_the_checkpoint_is_left_on_meta() -> Iterator[None]:
    def change(load: Any, model: Any, *args: Any, **more: Any) -> Any:
        load(model, *args, **more)
        model.norm.to("meta")

    with changed(BIG, "load_checkpoint_in_model", change):
        yield


@fault("offload.checkpoint", "wrong-numbers", "pretend")
def two_blocks_of_a_checkpoint_change_places() -> Iterator[None]:
    def change(load: Any, *args: Any, **more: Any) -> Any:
        found = load(*args, **more)
        names = ("blocks.2.inputs.bias", "blocks.3.inputs.bias")
        if names[0] in found and names[1] in found:
            found[names[0]], found[names[1]] = found[names[1]], found[names[0]]
        return found

    with changed("accelerate.utils.modeling", "load_state_dict", change):
        yield
