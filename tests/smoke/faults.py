"""Every fault that is injected, and the check that must find it.

Read by the tests for its table, and by `harness` inside an environment, where torch is: so
nothing but the standard library is imported before a fault is applied.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import re
import sys
import tempfile
import warnings
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IPEX = "intel-extension-for-pytorch"


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        name: What is wrong, as the name of the function that does it.
        check: Id of the one check that must fail.
        code: Code of its finding in the completed report.
        apply: Does it, as a context.
        world: ``cpu``, ``pretend`` (on the pretend accelerator), or ``process`` (in a process of
            its own, under the supervisor).
        expect: What of the expectation is different.
        only: Run these checks beside, where the fault leaves no sense to the others.
        children: Whether it is applied in the children of the worker as well.
        arguments: More for the command line (``process`` only).
    """

    name: str
    check: str
    code: str
    apply: Callable[[], AbstractContextManager[None]]
    world: str
    expect: dict[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    children: bool = False
    arguments: tuple[str, ...] = ()


FAULTS: list[Fault] = []
# Each computes for a second, on values and not on what a device says of itself: they run on the few
# devices of `test_profiles.FAULTY`, and where a fault aims at them.
DEEP = frozenset(
    {
        "attention.shapes",
        "autocast.gradient",
        "device.gradient",
        "fused.adamw",
        "matrix.product",
        "memory.large",
        "models.generate",
        "models.llama",
        "models.plates",
        "models.unet",
        "models.whisper",
        "operators.arithmetic",
        "operators.indexing",
        "operators.large",
        "operators.layers",
        "operators.modules",
        "operators.options",
        "operators.samples",
        "operators.sizes",
        "operators.variants",
        "random.draws",
        "training.checkpointing",
        "training.loader",
    }
)


def left_out(world: dict[str, Any]) -> set[str]:
    """Return the checks that are not run in a world: it has no generator of random numbers."""
    return {"random.seed"} if world.get("deep") else {"random.seed", *DEEP}


def fault(check: str, code: str, world: str = "cpu", **more: Any) -> Callable[..., Any]:
    """Register a generator function as a fault."""

    def register(
        function: Callable[[], Iterator[None]],
    ) -> Callable[[], Iterator[None]]:
        FAULTS.append(
            Fault(
                function.__name__, check, code, contextmanager(function), world, **more
            )
        )
        return function

    return register


def check_ids() -> set[str]:
    """Return the id of every check, read from the sources of the suite."""
    sources = (Path(__file__).parents[2] / "smoke" / "checks").glob("*.py")
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    marked = re.findall(r'@check\(\s*"([\w.\-]+)"', text)
    return {*marked, "device.ready", "identity.import"}


def module(name: str) -> Any:
    """Import late, and without the linter's list of names."""
    return importlib.import_module(name)


def as_of(owner: Any, function: Any, name: str = "") -> Any:
    """Return a function that looks like one of torch's: something else is to be looked at."""
    plain = getattr(function, "__func__", function)
    file = getattr(owner, "__file__", None) or sys.modules["torch"].__file__
    code = plain.__code__.replace(co_filename=file, co_name=name or plain.__name__)
    made = FunctionType(
        code, plain.__globals__, code.co_name, plain.__defaults__, plain.__closure__
    )
    made.__kwdefaults__ = plain.__kwdefaults__
    return made if plain is function else MethodType(made, function.__self__)


# Identity -----------------------------------------------------------------------------------------


@contextmanager
def distributions(*fakes: tuple[str, str, str]) -> Iterator[Path]:
    """Let distributions (name, version, module) seem to be installed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, version, top in fakes:
            info = Path(folder, f"{name.replace('-', '_')}-{version}.dist-info")
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            (info / "top_level.txt").write_text(top + "\n")
        with patch.object(sys, "path", [folder, *sys.path]):
            yield Path(folder)


@fault("identity.python", "wrong-interpreter-site-packages")
def a_folder_of_elsewhere_is_on_the_path() -> Iterator[None]:
    checks = module("smoke.checks.test_identity")
    with patch.object(
        checks, "PATH_AT_START", (*checks.PATH_AT_START, "/opt/elsewhere")
    ):
        yield


@fault("identity.python", "python-version-unsupported", expect={"python": "3.9"})
def another_python_than_the_targets() -> Iterator[None]:
    yield


@fault("identity.versions", "not-as-locked")
def a_second_numpy_over_the_locked_one() -> Iterator[None]:
    with distributions(("numpy", "1.0", "numpy")):
        yield


@fault(
    "identity.versions",
    "not-as-locked",
    expect={"packages": {"locked-and-absent": "1.0"}},
)
def a_locked_package_is_absent() -> Iterator[None]:
    yield


IDENTITY = (
    "identity.python",
    "identity.versions",
    "identity.owners",
    "identity.environment",
)


@fault(
    "identity.forbidden",
    "ipex-in-cuda-env",
    expect={"accelerator": "cuda"},
    only=IDENTITY,
)
def ipex_in_a_cuda_environment() -> Iterator[None]:
    with distributions((IPEX, "2.8.0", "intel_extension_for_pytorch")):
        yield


@fault(
    "identity.forbidden",
    "ipex-llm-with-separate-ipex",
    expect={"packages": {"ipex-llm": "2.2.0"}},
)
def ipex_beside_an_ipex_llm_without_it() -> Iterator[None]:
    with distributions(
        ("ipex-llm", "2.2.0", "ipex_llm"),
        (IPEX, "2.8.0", "intel_extension_for_pytorch"),
    ):
        yield


@fault(
    "identity.forbidden",
    "forbidden-distribution",
    expect={"forbid": [{"name": "numpy", "reason": "for the test"}]},
)
def a_distribution_that_the_spec_forbids() -> Iterator[None]:
    yield


@fault("identity.owners", "two-owners-of-a-module")
def a_second_triton() -> Iterator[None]:
    with distributions(
        ("triton", "3.5", "triton"), ("pytorch-triton-xpu", "3.5", "triton")
    ):
        yield


@fault(
    "identity.requirements",
    "missing-package",
    expect={"requirements": ["half-installed"]},
)
def a_requirement_lacks_its_module() -> Iterator[None]:
    with distributions(("half-installed", "1.0", "half_installed")):
        yield


@fault("identity.requirements", "missing-package", expect={"requirements": ["nowhere"]})
def a_requirement_is_not_installed() -> Iterator[None]:
    yield


@contextmanager
def torch_says(text: str) -> Iterator[None]:
    """Let torch/version.py say something else."""
    checks = module("smoke.checks.test_identity")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "version.py")
        file.write_text(text)
        found = type("Found", (), {"locate_file": lambda _self, _name: file})()
        with patch.object(checks.metadata, "distribution", lambda _name: found):
            yield


@fault("identity.build", "wrong-index-resolved", only=IDENTITY)
def a_cuda_build_on_a_cpu_target() -> Iterator[None]:
    with torch_says("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"):
        yield


@fault(
    "identity.build",
    "cpu-build-of-torch-installed",
    expect={"accelerator": "xpu"},
    only=IDENTITY,
)
def the_xpu_index_gave_a_cpu_build() -> Iterator[None]:
    with torch_says("__version__ = '2.13.0+cpu'\nxpu: Optional[str] = None\n"):
        yield


@fault("identity.code", "foreign-code-loaded")
def a_library_of_elsewhere_is_loaded_for_torchs_own() -> Iterator[None]:
    checks, torch = module("smoke.checks.test_identity"), module("torch")
    own = next(Path(torch.__file__).parent.glob("lib/libtorch_cpu.so"))
    with tempfile.TemporaryDirectory() as folder:
        maps = Path(folder, "maps")
        maps.write_text(
            f"7f00-7f01 r-xp 00000000 08:01 9 {Path('/opt/elsewhere', own.name)}\n"
        )
        with patch.object(checks, "MAPS", maps):
            yield


@fault("identity.code", "foreign-code-loaded")
def small_numbers_are_taken_for_zero() -> Iterator[None]:
    torch = module("torch")
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@fault(
    "identity.environment",
    "environment-not-set",
    expect={"environment": {"SYCL_CACHE": "1"}},
)
def started_without_the_targets_variables() -> Iterator[None]:
    yield


# Imports and probes that end or hang the process --------------------------------------------------


@contextmanager
def fake_ipex(source: str) -> Iterator[None]:
    """Put a module of IPEX's name on the path."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "intel_extension_for_pytorch.py").write_text(source)
        sys.path.append(folder)
        try:
            yield
        finally:
            sys.path.remove(folder)


# What IPEX prints to stdout, in the ways in which its versions then end the process.
MISMATCH = "print('ERROR! IPEX needs to work with PyTorch 2.5.*, but PyTorch 2.13 is found.')\n"
WITH_IPEX = {
    "expect": {"packages": {IPEX: "2.5.0"}},
    "arguments": ("--only", "identity.import"),
}


@fault("identity.import", "ipex-torch-version-mismatch", "process", **WITH_IPEX)
def a_mismatched_ipex_that_ends_at_once_with_127() -> Iterator[None]:
    with fake_ipex(MISMATCH + "import os; os._exit(127)"):
        yield


@fault("identity.import", "ipex-torch-version-mismatch", "process", **WITH_IPEX)
def a_mismatched_ipex_that_exits() -> Iterator[None]:
    with fake_ipex(MISMATCH + "exit(127)"):
        yield


ON_PRETEND = {"expect": {"accelerator": "xpu"}, "arguments": ("--only", "device.ready")}


@contextmanager
def first_operation(act: Callable[[], object]) -> Iterator[None]:
    """Do something when the device is first asked to compute."""
    from pretend import spoiled

    def change(result: Any, *_args: object) -> Any:
        act()
        return result

    with spoiled("aten::mm", change):
        yield


def _segfault() -> None:
    import ctypes

    ctypes.string_at(0)


@fault("device.ready", "process-died", "process", **ON_PRETEND)
def the_driver_crashes_the_process() -> Iterator[None]:
    with first_operation(_segfault):
        yield


@fault("device.ready", "process-died", "process", **ON_PRETEND)
def the_runtime_ends_the_process_with_127() -> Iterator[None]:
    with first_operation(lambda: os._exit(127)):
        yield


@fault(
    "device.ready",
    "probe-hung",
    "process",
    expect={"accelerator": "xpu"},
    arguments=("--only", "device.ready", "--limit", "10"),
)
def the_device_does_not_answer() -> Iterator[None]:
    with first_operation(lambda: module("time").sleep(60)):
        yield


@fault(
    "none",
    "",
    "process",
    expect={"accelerator": "xpu"},
    arguments=("--only", "device.ready", "--limit", "2"),
)
def kernels_are_compiled_for_longer_than_the_limit() -> Iterator[None]:
    """Desktop Arrow Lake with torch's wheels, an A380 with IPEX 2.1: not in their list of chips."""
    with says(first_kernel=6.0):
        yield


# Several devices ----------------------------------------------------------------------------------


def _is_second() -> bool:
    return os.environ["SMOKE_DEVICE"] == "1"


@contextmanager
def two_devices(broken: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Let there be two devices; one that is broken refuses to compute."""
    import pretend

    def act() -> None:
        if broken():
            raise RuntimeError("this device does not compute")

    with (
        patch.object(pretend.Backend, "device_count", lambda _self: 2),
        first_operation(act),
    ):
        yield


ON_ALL = {
    "expect": {"accelerator": "xpu", "families": ["bmg"]},
    "arguments": ("--device", "all", "--only", "device.ready"),
}


@fault("device.ready@1", "op-fails", "process", **ON_ALL)
def the_second_device_is_broken() -> Iterator[None]:
    with two_devices(_is_second):
        yield


@fault("device.ready", "op-fails", "process", **ON_ALL)
def the_first_device_of_two_is_broken() -> Iterator[None]:
    with two_devices(lambda: not _is_second()):
        yield


@fault("device.ready@1", "process-died", "process", **ON_ALL)
def the_driver_crashes_on_the_second_device() -> Iterator[None]:
    with two_devices(lambda: _is_second() and _segfault() is None):
        yield


@fault("none", "", "process", **ON_ALL)
def an_integrated_gpu_is_second() -> Iterator[None]:
    known = module("smoke.device.intel_device")
    families = known.families

    def of(*args: Any) -> frozenset[str]:
        return frozenset({"xe-lp"}) if _is_second() else families(*args)

    with two_devices(_is_second), patch.object(known, "families", of):
        yield


@fault("none", "", "process", **ON_ALL)
def two_devices_work() -> Iterator[None]:
    with two_devices():
        yield


# The device ---------------------------------------------------------------------------------------


@contextmanager
def says(**changes: object) -> Iterator[None]:
    """Let the pretend device say something else of itself."""
    import pretend

    with patch.dict(pretend.SAYS, changes):
        yield


NOTHING_ELSE = ("device.ready",)


@fault(
    "device.ready",
    "cpu-build-of-torch-installed",
    expect={"accelerator": "cuda"},
    only=NOTHING_ELSE,
)
def torch_has_no_code_for_the_device() -> Iterator[None]:
    with patch("torch.version.cuda", None):
        yield


@contextmanager
def invisible(
    *nodes: str,
    access: bool = True,
    words: str = "nothing",
    driver: str | None = None,
    wsl: str = "/nowhere",
) -> Iterator[None]:
    """Let no device show, with these device nodes, this driver, and these words of torch."""
    probe = module("smoke.checks.test_device")
    with (
        patch.object(probe.devices, "driver", lambda _accelerator: driver),
        says(available=False),
        patch.object(probe, "NODES", {"xpu": "nodes", "cuda": "nodes"}),
        patch.object(probe, "WSL", wsl),
        patch.object(probe.glob, "glob", lambda _pattern: list(nodes)),
        patch.object(probe.os, "access", lambda _node, _mode: access),
        patch.object(probe, "_init_error", lambda _module: words),
    ):
        yield


@fault("device.ready", "driver-missing", "pretend", only=NOTHING_ELSE)
def no_kernel_driver_has_taken_the_gpu() -> Iterator[None]:
    with invisible():
        yield


@fault(
    "device.ready",
    "driver-missing",
    "pretend",
    expect={"accelerator": "cuda"},
    only=NOTHING_ELSE,
)
def no_nvidia_driver() -> Iterator[None]:
    with invisible(words="Found no NVIDIA driver on your system."):
        yield


@fault("device.ready", "driver-missing", "pretend", only=NOTHING_ELSE)
def wsl_has_no_library_for_its_gpu() -> Iterator[None]:
    with invisible(wsl="/dev/null"):
        yield


@fault(
    "device.ready",
    "no-gpu-device-visible",
    "pretend",
    expect={"accelerator": "cuda"},
    only=NOTHING_ELSE,
)
def a_container_hides_the_version_of_its_driver_and_a_selector_the_device() -> Iterator[
    None
]:
    with invisible("/dev/nvidia0"):
        yield


@fault("device.ready", "driver-too-old", "pretend", only=NOTHING_ELSE)
def torch_says_that_the_driver_is_too_old() -> Iterator[None]:
    with invisible(
        "/dev/dri/renderD128", words="The NVIDIA driver on your system is too old"
    ):
        yield


@fault(
    "device.ready",
    "driver-too-old",
    "pretend",
    expect={"accelerator": "cuda"},
    only=NOTHING_ELSE,
)
def cuda_says_that_the_driver_is_insufficient() -> Iterator[None]:
    with invisible(words="CUDA driver version is insufficient", driver="470.10"):
        yield


@fault("device.ready", "no-render-permission", "pretend", only=NOTHING_ELSE)
def the_user_may_not_open_the_render_node() -> Iterator[None]:
    with invisible("/dev/dri/renderD128", access=False):
        yield


@fault("device.ready", "no-gpu-device-visible", "pretend", only=NOTHING_ELSE)
def a_selector_hides_the_device() -> Iterator[None]:
    with invisible("/dev/dri/renderD128"):
        yield


def _raise(text: str) -> Callable[..., Any]:
    def change(*_args: object) -> None:
        raise RuntimeError(text)

    return change


@fault("device.ready", "driver-too-old", "pretend", only=NOTHING_ELSE)
def available_and_every_operation_fails() -> Iterator[None]:
    from pretend import spoiled

    with spoiled("aten::mm", _raise("could not make an engine with allocator")):
        yield


@fault("device.ready", "op-fails", "pretend", only=NOTHING_ELSE)
def available_and_operations_fail_for_no_known_reason() -> Iterator[None]:
    from pretend import spoiled

    with spoiled("aten::mm", _raise("Native API failed. Native API returns: -999")):
        yield


@fault("device.ready", "wrong-numbers", "pretend", only=NOTHING_ELSE)
def the_first_sum_is_wrong() -> Iterator[None]:
    from pretend import spoiled

    with spoiled("aten::mm", lambda result, *_args: result + 1):
        yield


def scaled(when: Callable[..., bool], by: float = 1.05) -> Callable[..., Any]:
    """Return a change that makes a result a little too large for some arguments."""

    def change(result: Any, *args: Any) -> Any:
        return result * by if when(*args) else result

    return change


@fault("device.matmul", "wrong-numbers", "pretend")
def products_in_half_precision_are_wrong() -> Iterator[None]:
    import torch
    from pretend import spoiled

    with spoiled("aten::mm", scaled(lambda a, _b: a.dtype == torch.float16)):
        yield


@fault("device.matmul", "wrong-numbers", "pretend")
def products_of_4096_terms_are_wrong() -> Iterator[None]:
    from pretend import spoiled

    with spoiled("aten::mm", scaled(lambda a, _b: a.shape[1] == 4096)):
        yield


@fault("device.gradient", "wrong-numbers", "pretend")
def the_gradient_of_a_convolution_is_wrong() -> Iterator[None]:
    from pretend import spoiled

    with spoiled(
        "aten::convolution_backward",
        lambda result, *_args: (result[0], result[1] * 1.01, result[2]),
    ):
        yield


@fault("device.family", "device-unsupported", "pretend", expect={"families": ["dg2"]})
def a_gpu_that_the_target_is_not_for() -> Iterator[None]:
    yield


def judged(verdict: str) -> dict[str, Any]:
    """Return what of the expectation the toolkit judged this machine's driver to be."""
    reason = f"the driver of the machine is {verdict}"
    return {
        "driver_judgement": {
            "verdict": verdict,
            "reason": reason,
            "evidence": ["driver 1"],
        }
    }


@fault("device.fallback", "cpu-fallback-enabled", "pretend")
def what_the_device_lacks_runs_on_the_cpu() -> Iterator[None]:
    with patch.dict(os.environ, PYTORCH_ENABLE_XPU_FALLBACK="1"):
        yield


@fault(
    "device.fallback",
    "cpu-fallback-enabled",
    "pretend",
    expect={"fallback": ["PYTORCH_XPU_FALLBACK_OP=mm is set where the checks start"]},
)
def programs_of_the_caller_compute_on_the_cpu() -> Iterator[None]:
    yield


@fault("none", "", "pretend")
def a_fallback_that_is_switched_off() -> Iterator[None]:
    with patch.dict(os.environ, PYTORCH_ENABLE_XPU_FALLBACK="0"):
        yield


@contextmanager
def on_the_cpu(operator: str, named: str) -> Iterator[None]:
    """Let the CPU compute an operator, which torch for XPU names so and warns of."""
    from pretend import spoiled

    def warn(result: Any, *_arguments: Any) -> Any:
        # XPUFallback.cpp of torch-xpu-ops: an opening quote, and no closing one.
        warnings.warn(
            f"The operator 'aten::{named} on the XPU backend is falling back to run on "
            "the CPU. (Triggered internally at /xpu/XPUFallback.template:41.)",
            stacklevel=2,
        )
        return result

    with spoiled(operator, warn):
        yield


@fault("device.gradient", "operator-on-cpu", "pretend")
def the_cpu_computes_a_convolution() -> Iterator[None]:
    with on_the_cpu("aten::convolution_backward", "convolution_backward"):
        yield


@fault("operators.samples", "operator-on-cpu", "pretend", children=True)
def the_cpu_computes_an_arc_tangent_in_a_child() -> Iterator[None]:
    with on_the_cpu("aten::atan2", "atan2.out"):
        yield


@fault("none", "", "pretend", only=("device.gradient",))
def the_cpu_computes_a_convolution_of_a_torch_that_nobody_read() -> Iterator[None]:
    import torch

    with (
        patch.object(torch, "__version__", "2.99.0+xpu"),
        on_the_cpu("aten::convolution_backward", "convolution_backward"),
    ):
        yield


@fault("none", "", "pretend", only=("operators.layers",))
def the_cpu_computes_what_torch_leaves_to_it() -> Iterator[None]:
    with on_the_cpu("aten::linalg_qr", "linalg_qr.out"):
        yield


@fault("device.driver", "driver-too-old", "pretend", expect=judged("too-old"))
def a_driver_below_the_targets_floor() -> Iterator[None]:
    yield


@fault("device.driver", "driver-unknown", "pretend", expect=judged("unknown"))
def a_driver_that_nobody_can_judge() -> Iterator[None]:
    yield


@fault("device.driver", "driver-unknown", "pretend", expect={"driver_judgement": None})
def a_machine_whose_driver_nobody_read() -> Iterator[None]:
    yield


@fault("none", "", "pretend")
def a_driver_whose_version_torch_does_not_have() -> Iterator[None]:
    """IPEX 2.1.10's properties hold none; the toolkit read it elsewhere."""
    with says(driver=None):
        yield


@fault("device.family", "device-unsupported", "pretend")
def an_integrated_gpu_is_first() -> Iterator[None]:
    with says(name="Intel(R) UHD Graphics 770", id=None):
        yield


@fault("device.family", "device-unsupported", "pretend")
def an_integrated_gpu_without_a_name_is_first() -> Iterator[None]:
    with says(name="Intel(R) Graphics", id=0x4680):
        yield


@fault("device.family", "device-unknown", "pretend")
def a_device_that_is_in_no_list() -> Iterator[None]:
    with says(name="Intel(R) Graphics", id=None):
        yield


# Selection ----------------------------------------------------------------------------------------


@fault("selection.order", "wrong-device-selected")
def another_device_answers_first() -> Iterator[None]:
    import torch

    def is_available() -> bool:
        return True

    with patch.object(torch.cuda, "is_available", as_of(torch.cuda, is_available)):
        yield


@fault("selection.clean", "foreign-code-loaded")
def xpu_hijacks_cuda() -> Iterator[None]:
    import torch

    with patch.object(torch.cuda, "is_xpu_hijacked", True, create=True):
        yield


@fault("selection.clean", "foreign-code-loaded")
def ipex_is_imported_where_none_is_locked() -> Iterator[None]:
    name = "intel_extension_for_pytorch"
    with patch.dict(sys.modules, {name: ModuleType(name)}):
        yield


# Fused operators ----------------------------------------------------------------------------------


@fault("fused.attention", "wrong-numbers", "pretend")
def the_softmax_of_attention_is_wrong() -> Iterator[None]:
    from pretend import spoiled

    # 257 words: the attention of this check, and nothing else.
    with spoiled("aten::_safe_softmax", scaled(lambda x, *_args: x.shape[-1] == 257)):
        yield


@fault("fused.adamw", "wrong-numbers", "pretend")
def the_fused_optimizer_steps_too_far() -> Iterator[None]:
    from pretend import spoiled

    def change(result: Any, parameters: Any, *_args: Any) -> Any:
        for parameter in parameters:
            parameter.mul_(1.001)
        return result

    with spoiled("aten::_fused_adamw_", change):
        yield


OVERLOADS = {
    "mul_add": "(Tensor _0, Tensor _1, Tensor _2, Scalar _3) -> Tensor",
    "mul_add.Scalar_Tensor": "(Tensor _0, Scalar _1, Tensor _2, Scalar _3) -> Tensor",
    "mul_add.Tensor_Scalar": "(Tensor _0, Tensor _1, Scalar _2, Scalar _3) -> Tensor",
    "mul_add.Scalar_Scalar": "(Tensor _0, Scalar _1, Scalar _2, Scalar _3) -> Tensor",
}


def _mul_add(a: Any, b: Any, c: Any, alpha: float) -> Any:
    return a * b + alpha * c


@contextmanager
def stand_in(
    key: str,
    kernel: Callable[..., Any] = _mul_add,
    names: tuple[str, ...] = tuple(OVERLOADS),
) -> Iterator[None]:
    """Register torch_ipex::mul_add with a kernel for one dispatch key."""
    import torch

    library = torch.library.Library("torch_ipex", "FRAGMENT")
    try:
        for name in names:
            library.define(name + OVERLOADS[name])
            library.impl(name, kernel, key)
        yield
    finally:
        library._destroy()
        vars(torch.ops.torch_ipex).pop("mul_add", None)


MUL_ADD = {"expect": {"fused_ops": ["torch_ipex::mul_add"]}}


@fault("none", "", "pretend", **MUL_ADD)
def mul_add_is_registered_and_right() -> Iterator[None]:
    with stand_in("PrivateUse1"):
        yield


@fault("fused.operators", "fused-op-missing", "pretend", **MUL_ADD)
def mul_add_is_not_registered() -> Iterator[None]:
    yield


@fault("fused.operators", "fused-op-missing", "pretend", **MUL_ADD)
def mul_add_lacks_an_overload() -> Iterator[None]:
    with stand_in("PrivateUse1", names=tuple(OVERLOADS)[:3]):
        yield


@fault("fused.operators", "fused-op-without-kernel", "pretend", **MUL_ADD)
def mul_add_has_a_kernel_for_another_device() -> Iterator[None]:
    with stand_in("XPU"):
        yield


@fault("fused.operators", "wrong-numbers", "pretend", **MUL_ADD)
def mul_add_forgets_its_factor() -> Iterator[None]:
    with stand_in("PrivateUse1", lambda a, b, c, _alpha: a * b + c):
        yield


@fault(
    "fused.operators",
    "fused-op-without-reference",
    "pretend",
    expect={"fused_ops": ["torch_ipex::never_heard_of"]},
)
def the_spec_names_an_operator_that_nobody_can_judge() -> Iterator[None]:
    yield


# Rotary -------------------------------------------------------------------------------------------


@fault("rotary.eager", "wrong-numbers", "pretend")
def sine_is_coarse_for_large_angles() -> Iterator[None]:
    from pretend import spoiled

    with spoiled("aten::sin", scaled(lambda x: bool(x.abs().max() > 1000), by=0.9)):
        yield


WANTS_IPEX_LLM = {"expect": {"rotary": ["half", "interleaved", "ipex-llm"]}}


@fault("rotary.scripted", "fused-op-on-cpu-backend", "cpu", **WANTS_IPEX_LLM)
def a_fusion_pass_puts_mul_add_on_cpu_tensors() -> Iterator[None]:
    """Do what IPEX's pass makes of a scripted rotation: the operator has a kernel for XPU only."""
    import torch

    source = Path(tempfile.mkdtemp(), "fused_rotation.py")
    source.write_text(
        "import torch\n"
        "def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor):\n"
        "    width = 2 * cos.shape[-1]\n"
        "    first, second = x[..., 0:width:2], x[..., 1:width:2]\n"
        "    turned = torch.ops.torch_ipex.mul_add(second, cos, first * sin, 1)\n"
        "    turned = torch.stack([first * cos - second * sin, turned], -1).flatten(-2)\n"
        "    return torch.cat([turned, x[..., width:]], -1)\n"
    )
    spec = importlib.util.spec_from_file_location("fused_rotation", source)
    fused = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fused)
    script = torch.jit.script
    with (
        ipex_llm(1.0),
        stand_in("XPU"),
        patch.object(torch.jit, "script", lambda _f: script(fused.rotate)),
    ):
        yield


@fault("rotary.attention", "wrong-numbers", "pretend")
def the_projection_of_attention_is_wrong() -> Iterator[None]:
    from pretend import spoiled

    # Two sentences of nine words: the attention block of this check, and nothing else.
    with spoiled("aten::addmm", scaled(lambda _bias, x, _weight: x.shape[0] == 18)):
        yield


@contextmanager
def ipex_llm(spoil: float, *, fused: bool = False) -> Iterator[None]:
    """Stand in for the two functions of ipex-llm, on top of the reference."""
    names = ["ipex_llm", "ipex_llm.transformers", "ipex_llm.transformers.models"]
    home, utils = (ModuleType(f"{names[-1]}.{name}") for name in ("chatglm2", "utils"))

    def forward(
        layer: Any, x: Any, _mask: Any, rotary: Any, _cache: Any, _use: bool
    ) -> Any:
        wide = module("copy").deepcopy(layer).cpu().double()
        found = wide.plain(x.cpu().double(), rotary[1][0].cpu())
        return (found * spoil).to(x.dtype).to(x.device), None

    home.chatglm2_attention_forward = forward  # type: ignore[attr-defined]
    utils.should_use_fuse_rope = lambda *_args: fused  # type: ignore[attr-defined]
    fakes = {name: ModuleType(name) for name in names} | {
        home.__name__: home,
        utils.__name__: utils,
    }
    low_bit = module(f"{__name__}_offload").low_bit_modules()
    with patch.dict(sys.modules, fakes | low_bit):
        yield


@fault("none", "", **WANTS_IPEX_LLM)
def the_attention_of_ipex_llm_is_right() -> Iterator[None]:
    with ipex_llm(1.0):
        yield


@fault("rotary.ipex-llm", "wrong-numbers", **WANTS_IPEX_LLM)
def the_attention_of_ipex_llm_is_wrong() -> Iterator[None]:
    with ipex_llm(1.1):
        yield


@fault("rotary.ipex-llm", "fused-op-on-cpu-backend", **WANTS_IPEX_LLM)
def ipex_llm_takes_its_fused_rotation_on_the_cpu() -> Iterator[None]:
    with ipex_llm(1.0, fused=True):
        yield


@fault("rotary.ipex-llm", "missing-package", **WANTS_IPEX_LLM)
def ipex_llm_is_promised_and_absent() -> Iterator[None]:
    yield


@fault("rotary.transformers", "wrong-numbers")
def transformers_turns_the_wrong_half() -> Iterator[None]:
    llama = module("transformers.models.llama.modeling_llama")
    with patch.object(llama, "rotate_half", lambda x: x.roll(x.shape[-1] // 2, -1)):
        yield


# Resume -------------------------------------------------------------------------------------------


@fault("resume.fresh", "resume-differs", children=True)
def a_resume_loses_the_optimizers_state() -> Iterator[None]:
    import torch

    with patch.object(
        torch.optim.Optimizer, "load_state_dict", lambda _self, _state: None
    ):
        yield


@fault("resume.state", "mixed-devices-on-resume", "pretend")
def optimizer_state_stays_on_the_cpu() -> Iterator[None]:
    import torch

    def as_it_is(_parameter: Any, value: Any, *_args: Any, **_more: Any) -> Any:
        return value

    with patch.object(
        torch.optim.Optimizer,
        "_process_value_according_to_param_policy",
        staticmethod(as_it_is),
    ):
        yield


@fault("resume.order", "wrong-order-unnoticed", "pretend")
def stray_optimizer_state_is_not_seen() -> Iterator[None]:
    with patch.object(
        module("smoke.reference.training"), "mismatches", lambda _model, _update: []
    ):
        yield


@fault("resume.order", "wrong-order-unnoticed")
def stray_optimizer_state_is_not_seen_on_the_cpu() -> Iterator[None]:
    with patch.object(
        module("smoke.reference.training"), "mismatches", lambda _model, _update: []
    ):
        yield


@fault("resume.trains", "optimizer-trains-nothing", "pretend")
def moving_a_model_replaces_its_parameters() -> Iterator[None]:
    import torch

    future = torch.__future__
    future.set_swap_module_params_on_conversion(False)
    future.set_overwrite_module_params_on_conversion(True)
    try:
        yield
    finally:
        future.set_overwrite_module_params_on_conversion(False)
        future.set_swap_module_params_on_conversion(True)


@fault("resume.portable", "resume-differs", "pretend")
def a_checkpoint_is_saved_with_other_weights() -> Iterator[None]:
    import torch

    save = torch.save

    def spoil(state: Any, path: Any) -> None:
        # Only what a program saves with its tensors on the device, as this check does.
        model = state["model"].values() if isinstance(state, dict) else ()
        if any(type(leaf).__name__ == "PretendTensor" for leaf in model):
            state["model"] = {key: value * 1.1 for key, value in state["model"].items()}
        save(state, path)

    with patch.object(torch, "save", spoil):
        yield


@contextmanager
def without_float64(**properties: object) -> Iterator[None]:
    """Refuse arithmetic in float64 on the pretend device, and let casts pass, as DG2 does."""
    import pretend
    import torch

    def change(result: Any, *args: Any) -> Any:
        if args[0].dtype == torch.float64:
            raise RuntimeError("Required aspect fp64 is not supported on the device")
        return result

    said = SimpleNamespace(
        total_memory=2**34, device_id=pretend.SAYS["id"], **properties
    )
    with (
        pretend.spoiled("aten::reciprocal", change),
        patch.object(pretend.Backend, "get_device_properties", lambda *_args: said),
    ):
        yield


@fault("none", "", "pretend")
def a_card_without_float64() -> Iterator[None]:
    with without_float64(has_fp64=False):
        yield


@fault("none", "", "pretend")
def a_card_without_float64_as_ipex_2_1_10_says_it() -> Iterator[None]:
    with without_float64(support_fp64=0):
        yield


@fault("resume.scaler", "fp64-unsupported", "pretend")
def a_card_that_promises_float64_refuses_it() -> Iterator[None]:
    with without_float64(has_fp64=True):
        yield


@fault("resume.scaler", "resume-differs")
def the_loss_scale_starts_over() -> Iterator[None]:
    import torch

    with patch.object(
        torch.amp.GradScaler, "load_state_dict", lambda _self, _state: None
    ):
        yield


# Offload ------------------------------------------------------------------------------------------


@fault("offload.cpu", "tensors-elsewhere", "pretend")
def cpu_offload_computes_on_the_cpu() -> Iterator[None]:
    accelerate = module("accelerate")
    original = accelerate.cpu_offload

    def on_cpu(model: Any, execution_device: Any, **more: Any) -> Any:
        return original(model, execution_device="cpu", **more)

    with patch.object(accelerate, "cpu_offload", on_cpu):
        yield


@fault("offload.disk", "wrong-numbers", "pretend")
def other_weights_come_back_from_disk() -> Iterator[None]:
    import torch

    accelerate = module("accelerate")
    original = accelerate.disk_offload

    def spoil(model: Any, folder: str, **more: Any) -> Any:
        model.norm.weight = torch.nn.Parameter(model.norm.weight.detach() * 1.5)
        return original(model, folder, **more)

    with patch.object(accelerate, "disk_offload", spoil):
        yield


@fault("offload.tied", "accelerate-offload-keyerror", "pretend")
def a_tied_weight_is_filed_under_another_name() -> Iterator[None]:
    """Do what Accelerate 1.4 and 1.5 did: file by number, look up by name."""
    hook = module("accelerate.hooks").AlignDevicesHook
    original = hook.post_forward

    def post_forward(self: Any, owner: Any, output: Any) -> Any:
        for pointer, device in self.tied_pointers_to_remove if self.offload else ():
            if isinstance(device, int):
                del self.tied_params_map[pointer][f"pretend:{device}"]
        return original(self, owner, output)

    with patch.object(hook, "post_forward", post_forward):
        yield


# Speed, precision, compiler, memory, transfer -----------------------------------------------------


@fault("throughput.training", "slow", "pretend", expect={"speedup_over_cpu": 1000.0})
def the_device_is_no_faster_than_the_cpu() -> Iterator[None]:
    checks = module("smoke.checks.test_throughput")
    plates = checks.plates
    fewer = patch.object(checks, "ROUNDS", 2)
    with patch.object(checks, "plates", lambda _count: plates(2)), fewer:
        yield


@fault(
    "throughput.training",
    "tensors-elsewhere",
    "pretend",
    expect={"speedup_over_cpu": 0.001},
)
def the_model_stays_on_the_cpu() -> Iterator[None]:
    models = module("smoke.reference.models")
    with patch.object(models.PlateReader, "to", lambda self, *_args: self, create=True):
        yield


@fault("autocast.forward", "autocast-has-no-effect")
def autocast_does_nothing() -> Iterator[None]:
    import torch

    with patch.object(torch, "autocast", lambda *_args, **_more: ExitStack()):
        yield


@fault("compile.mul_add", "compile-falls-back")
def compilation_is_switched_off() -> Iterator[None]:
    config = module("torch._dynamo").config
    with config.patch(disable=True):
        yield


@fault("compile.mul_add", "compile-falls-back")
def a_graph_is_run_without_kernels() -> Iterator[None]:
    torch = module("torch")
    plain = torch.compile

    def compile_(function: Any, **more: Any) -> Any:
        return plain(function, backend="eager", **more)

    with patch.object(torch, "compile", compile_):
        yield


def kernels(graph: Any, _inputs: Any) -> Any:
    """Compile nothing, as a back end that counts a kernel."""
    module("torch._inductor.metrics").generated_kernel_count += 1
    return graph.forward


@fault("compile.mul_add", "wrong-numbers")
def the_compiled_kernel_is_wrong() -> Iterator[None]:
    import torch

    compile_ = torch.compile

    def spoil(_function: Any, **_more: Any) -> Any:
        return compile_(lambda a, b, c: a * b + c, backend=kernels, fullgraph=True)

    with patch.object(torch, "compile", spoil):
        yield


@fault("memory.leak", "memory-leak", "pretend")
def each_step_keeps_a_little() -> Iterator[None]:
    from pretend import spoiled, wrap

    kept: list[Any] = []

    def keep(result: Any, *_args: Any) -> Any:
        kept.append(wrap(result.clone()))
        return result

    with spoiled("aten::gelu_backward", keep):
        yield


@fault("memory.release", "memory-not-released", "pretend")
def a_deleted_tensor_keeps_its_memory() -> Iterator[None]:
    import torch

    ones, kept = torch.ones, []

    def keep(*size: Any, **more: Any) -> Any:
        tensor = ones(*size, **more)
        kept.append(tensor if size == (2**24,) else None)
        return tensor

    with patch.object(torch, "ones", keep):
        yield


@fault("memory.release", "", only=("memory.release",))
def a_tensor_lies_in_freed_memory_that_was_kept() -> Iterator[None]:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    size = 30 * 2**20
    # Freed once, blocks of this size are taken from the heap (mallopt(3), M_MMAP_THRESHOLD).
    library.free(library.malloc(size + 2**20))
    blocks = [library.malloc(size) for _ in range(8)]
    above = library.malloc(size)  # else the heap shrinks
    for each in blocks:
        ctypes.memset(each, 1, size)
        library.free(each)
    yield
    library.free(above)


@fault("memory.exhausted", "out-of-memory-not-refused", "pretend")
def more_memory_is_granted_than_there_is() -> Iterator[None]:
    import torch

    empty = torch.empty

    def grant(*size: Any, **more: Any) -> Any:
        return None if size == (2**50,) else empty(*size, **more)

    with patch.object(torch, "empty", grant):
        yield


@fault("transfer.roundtrip", "transfer-corrupts", "pretend")
def bytes_change_on_their_way() -> Iterator[None]:
    import torch
    from pretend import spoiled

    def flip(result: Any, source: Any) -> Any:
        return (
            result ^ 1
            if source.dtype == torch.uint8 and source.shape == (130, 70)
            else result
        )

    with spoiled("aten::_to_copy", flip):
        yield


@fault("transfer.speed", "slow", "pretend")
def the_link_is_as_slow_as_can_be() -> Iterator[None]:
    checks = module("smoke.checks.test_transfer")
    with patch.object(
        checks.devices, "synchronize", lambda _device: module("time").sleep(0.002)
    ):
        yield


@fault("none", "", children=True, only=("noise.imports",))
def a_healthy_stack_prints_what_is_known() -> Iterator[None]:
    os.write(2, b"UserWarning: Can't initialize Level Zero Sysman\n")
    os.write(2, b"  return _enum_zes_device_infos(visible_mask)\n")
    yield


@fault("noise.imports", "unknown-warning", children=True)
def an_operator_has_no_kernel_for_the_device() -> Iterator[None]:
    os.write(2, b"There was no kernel registered at all for dispatch key: XPU\n")
    yield


# Children -----------------------------------------------------------------------------------------


@fault("collective.sum", "backend-not-built")
def torch_has_no_distributed_package() -> Iterator[None]:
    import torch

    with patch.object(torch.distributed, "is_available", lambda: False):
        yield


@fault("collective.sum", "wrong-numbers", children=True)
def the_sum_leaves_one_process_out() -> Iterator[None]:
    import torch

    with patch.object(torch.distributed, "all_reduce", lambda *_given: None):
        yield


@fault("noise.imports", "unknown-warning", children=True)
def a_library_prints_something_new() -> Iterator[None]:
    os.write(2, b"[W] level_zero: firmware 1.2 is not known to this loader\n")
    yield


@fault("noise.imports", "op-fails", children=True)
def the_fresh_process_raises() -> Iterator[None]:
    import torch

    ones = torch.ones

    def fails(*size: Any, **more: Any) -> Any:
        if size == (4, 4):
            raise RuntimeError("the runtime has lost its device")
        return ones(*size, **more)

    with patch.object(torch, "ones", fails):
        yield


@fault("noise.imports", "process-died", children=True)
def the_fresh_process_dies() -> Iterator[None]:
    if "SMOKE_CHILD" in os.environ:
        os._exit(127)
    yield


importlib.import_module(f"{__name__}_offload")
importlib.import_module(f"{__name__}_health")
importlib.import_module(f"{__name__}_operators")
importlib.import_module(f"{__name__}_models")
importlib.import_module(f"{__name__}_programs")
importlib.import_module(f"{__name__}_known_wrong")
