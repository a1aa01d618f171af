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
from types import FunctionType, MethodType, ModuleType
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
        code: Code of its finding in the completed report, "" for a healthy state: it must pass.
        apply: Does it, as a context.
        world: ``cpu``, ``pretend`` (on the pretend accelerator), ``device`` (where that plays a
            device of each kind), ``process`` (in a process of its own, under the supervisor),
            ``devices`` (that, on several devices at once, see `test_side_by_side`), or ``group``
            (in one process of a job, see `test_group`).
        expect: What of the expectation is different.
        children: Whether it is applied in the children of the worker as well.
        arguments: More for the command line (``process`` and ``devices`` only).
    """

    name: str
    check: str
    code: str
    apply: Callable[[], AbstractContextManager[None]]
    world: str
    expect: dict[str, Any] = field(default_factory=dict)
    children: bool = False
    arguments: tuple[str, ...] = ()


FAULTS: list[Fault] = []
# Each computes for a second, on values and not on what a device says of itself: they run on the few
# devices of `test_profiles.DEEPLY`, and where a fault aims at them.
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
        "operators.layers",
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


def fault(check: str, code: str, world: str = "cpu", **more) -> Callable[..., Any]:
    """Register a generator function as a fault."""

    def register(apply: Callable[[], Iterator[None]]) -> Callable[[], Iterator[None]]:
        context = contextmanager(apply)
        FAULTS.append(Fault(apply.__name__, check, code, context, world, **more))
        return apply

    return register


def operator(
    check: str, name: str, code: str = "wrong-numbers", world: str = "pretend"
) -> Callable[..., Any]:
    """Register a change of what an operator of the pretend device returns.

    The function gets the result and the raw arguments, and returns the result.
    """

    def register(change: Callable[..., Any]) -> Callable[..., Any]:
        def apply():
            with module("pretend").spoiled(f"aten::{name}", change):
                yield

        apply.__name__ = change.__name__
        fault(check, code, world)(apply)
        return change

    return register


def replaced(
    check: str, code: str, home: str, name: str, world: str = "cpu", **more
) -> Callable[..., Any]:
    """Register another function of ``module:Class``, which gets the original one first."""

    def register(change: Callable[..., Any]) -> Callable[..., Any]:
        def apply():
            with changed(home, name, change):
                yield

        apply.__name__ = change.__name__
        fault(check, code, world, **more)(apply)
        return change

    return register


@contextmanager
def changed(home: str, name: str, change: Callable[..., Any]):
    """Let a function of a library be another one, which is given the original and its arguments."""
    place, _, parts = home.partition(":")
    owner = module(place)
    for part in filter(None, parts.split(".")):
        owner = getattr(owner, part)
    original = getattr(owner, name)

    def call(*args, **more):
        return change(original, *args, **more)

    with patch.object(owner, name, call):
        yield


def check_ids() -> set[str]:
    """Return the id of every check, read from the sources of the suite."""
    sources = (Path(__file__).parents[2] / "smoke" / "checks").glob("*.py")
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    marked = re.findall(r'@check\(\s*"([\w.\-]+)"', text)
    return {*marked, "device.ready", "identity.import"}


def module(name: str):
    """Import late, and without the linter's list of names."""
    return importlib.import_module(name)


def as_of(owner, function, name: str = ""):
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
def a_folder_of_elsewhere_is_on_the_path():
    checks = module("smoke.checks.test_identity")
    path = (*checks.PATH_AT_START, "/opt/elsewhere")
    with patch.object(checks, "PATH_AT_START", path):
        yield


@fault("identity.python", "python-version-unsupported", expect={"python": "3.9"})
def another_python_than_the_targets():
    yield


@fault("identity.versions", "not-as-locked")
def a_second_numpy_over_the_locked_one():
    with distributions(("numpy", "1.0", "numpy")):
        yield


@fault("identity.forbidden", "ipex-in-cuda-env", expect={"accelerator": "cuda"})
def ipex_in_a_cuda_environment():
    with distributions((IPEX, "2.8.0", "intel_extension_for_pytorch")):
        yield


@fault(
    "identity.forbidden",
    "ipex-llm-with-separate-ipex",
    expect={"packages": {"ipex-llm": "2.2.0"}},
)
def ipex_beside_an_ipex_llm_without_it():
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
def a_distribution_that_the_spec_forbids():
    yield


@fault("identity.owners", "two-owners-of-a-module")
def a_second_triton():
    with distributions(
        ("triton", "3.5", "triton"), ("pytorch-triton-xpu", "3.5", "triton")
    ):
        yield


@fault("identity.requirements", "missing-package", expect={"requirements": ["nowhere"]})
def a_requirement_is_not_installed():
    yield


@contextmanager
def torch_says(text: str):
    """Let torch/version.py say something else."""
    checks = module("smoke.checks.test_identity")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "version.py")
        file.write_text(text)
        found = type("Found", (), {"locate_file": lambda _self, _name: file})()
        with patch.object(checks.metadata, "distribution", lambda _name: found):
            yield


@fault("identity.build", "wrong-index-resolved")
def a_cuda_build_on_a_cpu_target():
    with torch_says("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"):
        yield


@fault("identity.build", "cpu-build-of-torch-installed", expect={"accelerator": "xpu"})
def the_xpu_index_gave_a_cpu_build():
    with torch_says("__version__ = '2.13.0+cpu'\nxpu: Optional[str] = None\n"):
        yield


@fault("identity.code", "foreign-code-loaded")
def a_library_of_elsewhere_is_loaded_for_torchs_own():
    checks, torch = module("smoke.checks.test_identity"), module("torch")
    own = next(Path(torch.__file__).parent.glob("lib/libtorch_cpu.so"))
    elsewhere = Path("/opt/elsewhere", own.name)
    with tempfile.TemporaryDirectory() as folder:
        maps = Path(folder, "maps")
        maps.write_text(f"7f00-7f01 r-xp 00000000 08:01 9 {elsewhere}\n")
        with patch.object(checks, "MAPS", maps):
            yield


@fault("identity.code", "foreign-code-loaded")
def small_numbers_are_taken_for_zero():
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
def started_without_the_targets_variables():
    yield


# Imports and probes that end or hang the process --------------------------------------------------

# What IPEX prints to stdout, in the ways in which its versions then end the process.
MISMATCH = "print('ERROR! IPEX needs to work with PyTorch 2.5.*, but PyTorch 2.13 is found.')\n"
WITH_IPEX: dict[str, Any] = {
    "expect": {"packages": {IPEX: "2.5.0"}},
    "arguments": ("--only", "identity.import"),
}


@contextmanager
def fake_ipex(source: str):
    """Put a module of IPEX's name on the path."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "intel_extension_for_pytorch.py").write_text(source)
        sys.path.append(folder)
        try:
            yield
        finally:
            sys.path.remove(folder)


@fault("identity.import", "ipex-torch-version-mismatch", "process", **WITH_IPEX)
def a_mismatched_ipex_that_ends_at_once_with_127():
    with fake_ipex(MISMATCH + "import os; os._exit(127)"):
        yield


@fault("identity.import", "ipex-torch-version-mismatch", "process", **WITH_IPEX)
def a_mismatched_ipex_that_exits():
    with fake_ipex(MISMATCH + "exit(127)"):
        yield


@contextmanager
def first_operation(act: Callable[[], object]):
    """Do something when the device is first asked to compute."""

    def change(result, *_args: object):
        act()
        return result

    with module("pretend").spoiled("aten::mm", change):
        yield


def on_pretend(*arguments: str) -> dict[str, Any]:
    """Return the settings of a supervised run of the first check on the pretend device."""
    return {
        "expect": {"accelerator": "xpu", "families": ["bmg"]},
        "arguments": ("--only", "device.ready", *arguments),
    }


@fault("device.ready", "process-died", "process", **on_pretend())
def the_driver_crashes_the_process():
    with first_operation(lambda: ctypes.string_at(0)):
        yield


@fault("device.ready", "probe-hung", "process", **on_pretend("--limit", "10"))
def the_device_does_not_answer():
    with first_operation(lambda: module("time").sleep(60)):
        yield


@fault("device.ready", "", "process", **on_pretend("--limit", "2"))
def kernels_are_compiled_for_longer_than_the_limit():
    """Desktop Arrow Lake with torch's wheels, an A380 with IPEX 2.1: not in their list of chips."""
    with says(first_kernel=6.0):
        yield


@fault(
    "operators.indexing",
    "op-fails",
    "process",
    **on_pretend("--only", "operators.indexing", "--only", "fused.attention"),
)
def a_kernel_reads_at_a_wrong_address():
    """CUDA refuses all work of a process after that, and none of another one."""

    def change(result, *_args: object):
        queue = module("pretend").QUEUE
        queue.fail("CUDA error: misaligned address", "CUDA error: misaligned address")
        return result

    with module("pretend").spoiled("aten::sort", change):
        yield


@contextmanager
def broken_second_device():
    """Let there be two devices, of which the second refuses to compute."""
    backend = module("pretend").Backend

    def act() -> None:
        if os.environ["SMOKE_DEVICE"] == "1":
            raise RuntimeError("this device does not compute")

    with patch.object(backend, "device_count", lambda _self: 2), first_operation(act):
        yield


@fault("device.ready@1", "op-fails", "process", **on_pretend("--device", "all"))
def the_second_device_is_broken():
    with broken_second_device():
        yield


def on_devices(*arguments: str) -> dict[str, Any]:
    """Return the settings of a supervised run on several pretend devices, side by side."""
    settings = on_pretend("--device", "all", "--side-by-side", *arguments)
    return settings | {"arguments": settings["arguments"][2:]}


@fault("device.ready", "", "devices", **on_devices())
def eight_devices_are_healthy():
    with says(others=[{}] * 7):
        yield


@fault("device.ready@1", "probe-hung", "devices", **on_devices("--limit", "10"))
def the_second_of_three_devices_does_not_answer():
    def act() -> None:
        if os.environ["SMOKE_DEVICE"] == "1":
            sleep = module("time").sleep
            # Silent once the third has ended, however late that comes on a busy machine.
            path = Path(module("json").loads(sys.argv[1])["journal"])
            journal = module("smoke.engine.journal").Journal(path, 1)
            for _ in range(600):
                if "device.ready@2" in journal.ended():
                    break
                journal.write(alive=True)
                sleep(0.1)
            sleep(600)

    with says(others=[{}] * 2), first_operation(act):
        yield


@fault("device.ready", "", "process", **on_pretend("--device", "all"))
def an_integrated_gpu_is_second():
    def families(original, *args):
        second = os.environ["SMOKE_DEVICE"] == "1"
        return frozenset({"xe-lp"}) if second else original(*args)

    home = "smoke.device.intel_device"
    with broken_second_device(), changed(home, "families", families):
        yield


# The device ---------------------------------------------------------------------------------------


@contextmanager
def says(**changes: object):
    """Let the pretend device say something else of itself."""
    with patch.dict(module("pretend").SAYS, changes):
        yield


@fault("device.ready", "cpu-build-of-torch-installed", expect={"accelerator": "cuda"})
def torch_has_no_code_for_the_device():
    with patch("torch.version.cuda", None):
        yield


@contextmanager
def invisible(
    *nodes: str,
    access: bool = True,
    words: str = "nothing",
    driver: str | None = None,
    bus: tuple[str, ...] = (),
    contained: bool = False,
    library: object = None,
):
    """Let no device show, with these device nodes, this driver, and these words of torch.

    ``bus`` are patterns of sysfs that have a match, and ``library`` is NVIDIA's.
    """
    probe = module("smoke.checks.test_device")
    with (
        patch.object(probe.devices, "driver", lambda _accelerator: driver),
        patch.object(probe.sensors, "nvml_library", lambda: library),
        says(available=False),
        patch.object(probe, "NODES", {"xpu": "nodes", "cuda": "nodes"}),
        patch.object(probe, "WSL", "/nowhere"),
        patch.object(
            probe.glob,
            "glob",
            lambda pattern: (
                list(nodes) if pattern == "nodes" else [*{pattern} & {*bus}]
            ),
        ),
        patch.object(probe, "CONTAINER", ["/dev/null"] if contained else ()),
        patch.object(probe.os, "access", lambda _node, _mode: access),
        patch.object(probe, "_init_error", lambda _module: words),
    ):
        yield


@fault("device.ready", "driver-missing", "pretend")
def no_kernel_driver_has_taken_the_gpu():
    with invisible():
        yield


@fault("device.ready", "driver-too-old", "pretend", expect={"accelerator": "cuda"})
def cuda_says_that_the_driver_is_insufficient():
    words = "CUDA driver version is insufficient"
    counted = patch.object(module("pretend").Backend, "device_count", lambda _self: 1)
    with invisible(words=words, driver="470.10"), counted:  # by NVML
        yield


@fault("device.ready", "driver-too-old", "pretend", expect={"accelerator": "cuda"})
def cuda_says_that_the_driver_is_too_old():
    with invisible(words="The NVIDIA driver on your system is too old"):
        yield


@fault("device.ready", "no-render-permission", "pretend")
def the_user_may_not_open_the_render_node():
    with invisible("/dev/dri/renderD128", access=False):
        yield


@fault("device.ready", "no-gpu-device-visible", "pretend")
def a_selector_hides_the_device_in_a_container():
    bus = ("/sys/bus/pci/drivers/xe/*:*",)
    with invisible("/dev/dri/renderD128", bus=bus, contained=True):
        yield


@fault(
    "device.ready", "no-gpu-device-visible", "pretend", expect={"accelerator": "cuda"}
)
def cuda_finds_no_device_although_its_driver_is_loaded():
    with invisible(driver="580.65"):
        yield


DAMAGED = "/sys/bus/pci/devices/*/survivability_mode"


@fault("device.ready", "gpu-hardware-fault", "pretend")
def the_firmware_of_the_card_is_damaged():
    with invisible(bus=(DAMAGED,)):
        yield


@fault("device.ready", "driver-not-mounted", "pretend", expect={"accelerator": "cuda"})
def a_container_has_no_library_of_the_driver():
    with invisible(bus=("/sys/bus/pci/drivers/nvidia/*:*",), contained=True):
        yield


@fault("device.ready", "driver-not-mounted", "pretend", expect={"accelerator": "cuda"})
def a_container_has_device_files_and_no_library_of_the_driver():
    bus = ("/sys/bus/pci/drivers/nvidia/*:*",)
    with invisible("/dev/nvidia0", bus=bus, contained=True):
        yield


@fault(
    "device.ready", "no-gpu-device-visible", "pretend", expect={"accelerator": "cuda"}
)
def a_container_has_a_driver_that_does_not_start():
    bus = ("/sys/bus/pci/drivers/nvidia/*:*",)
    with invisible("/dev/nvidia0", bus=bus, contained=True, library=object()):
        yield


@fault("device.ready", "driver-missing", "pretend", expect={"accelerator": "cuda"})
def a_machine_with_a_damaged_arc_has_no_library_of_nvidias_driver():
    words = "CUDA driver version is insufficient"
    with invisible(bus=("/sys/bus/pci/drivers/nvidia/*:*", DAMAGED), words=words):
        yield


@fault("device.ready", "driver-not-mounted", "pretend")
def a_pod_has_no_device_files():
    pod = patch.dict(os.environ, KUBERNETES_SERVICE_HOST="10.0.0.1")
    with invisible(bus=("/sys/bus/pci/drivers/xe/*:*",)), pod:
        yield


@fault("device.ready", "driver-missing", "pretend")
def a_container_on_a_node_whose_driver_is_not_loaded():
    with invisible(contained=True):
        yield


@operator("device.ready", "mm", "driver-too-old")
def available_and_every_operation_fails(*_args: object) -> None:
    raise RuntimeError("could not make an engine with allocator")


@operator("device.ready", "mm")
def the_first_sum_is_wrong(result, *_args: object):
    return result + 1


@operator("device.matmul", "mm")
def products_in_half_precision_are_wrong(result, a, _b):
    return result * 1.05 if str(a.dtype) == "torch.float16" else result


@fault("device.family", "device-unsupported", "pretend", expect={"families": ["dg2"]})
def a_gpu_that_the_target_is_not_for():
    yield


@fault("device.family", "device-unknown", "pretend")
def a_device_that_is_in_no_list():
    with says(name="Intel(R) Graphics", id=None):
        yield


def judged(verdict: str) -> dict[str, Any]:
    """Return what of the expectation the toolkit judged this machine's driver to be."""
    reason = f"the driver of the machine is {verdict}"
    judgement = {"verdict": verdict, "reason": reason, "evidence": ["driver 1"]}
    return {"driver_verdict": judgement}


@fault("device.driver", "driver-too-old", "pretend", expect=judged("too-old"))
def a_driver_below_the_targets_floor():
    yield


@fault("device.driver", "driver-unknown", "pretend", expect=judged("unknown"))
def a_driver_that_nobody_can_judge():
    yield


@fault("device.driver", "driver-unknown", "pretend", expect={"driver_verdict": None})
def an_image_does_not_know_the_driver_of_its_machine():
    yield


# The CPU in secret --------------------------------------------------------------------------------


@fault("device.fallback", "cpu-fallback-enabled", "pretend")
def what_the_device_lacks_runs_on_the_cpu():
    with patch.dict(os.environ, PYTORCH_ENABLE_XPU_FALLBACK="1"):
        yield


@fault(
    "device.fallback",
    "cpu-fallback-enabled",
    "pretend",
    expect={"fallback": ["PYTORCH_XPU_FALLBACK_OP=mm is set where the checks start"]},
)
def programs_of_the_caller_compute_on_the_cpu():
    yield


@contextmanager
def on_the_cpu(name: str, named: str = ""):
    """Let the CPU compute an operator, which torch for XPU names so and warns of."""

    def warn(result, *_arguments):
        # XPUFallback.cpp of torch-xpu-ops: an opening quote, and no closing one.
        warnings.warn(
            f"The operator 'aten::{named or name} on the XPU backend is falling back to "
            "run on the CPU. (Triggered internally at /xpu/XPUFallback.template:41.)",
            stacklevel=2,
        )
        return result

    with module("pretend").spoiled(f"aten::{name}", warn):
        yield


@fault("device.gradient", "operator-on-cpu", "pretend")
def the_cpu_computes_a_convolution():
    with on_the_cpu("convolution_backward"):
        yield


@fault("device.matmul", "operator-on-cpu", "pretend")
def the_cpu_computes_a_product():
    with on_the_cpu("mm"):
        yield


@fault("operators.layers", "operator-on-cpu", "pretend")
def the_cpu_computes_a_softmax():
    with on_the_cpu("_softmax"):
        yield


@fault("operators.samples", "operator-on-cpu", "pretend", children=True)
def the_cpu_computes_an_arc_tangent_in_a_child():
    with on_the_cpu("atan2", "atan2.out"):
        yield


@fault("device.gradient", "", "pretend")
def the_cpu_computes_a_convolution_of_a_torch_that_nobody_read():
    with (
        patch.object(module("torch"), "__version__", "2.99.0+xpu"),
        on_the_cpu("convolution_backward"),
    ):
        yield


@fault("operators.layers", "", "pretend")
def the_cpu_computes_what_torch_leaves_to_it():
    with on_the_cpu("linalg_qr", "linalg_qr.out"):
        yield


# Selection ----------------------------------------------------------------------------------------


@fault("selection.order", "wrong-device-selected")
def another_device_answers_first():
    with patch.object(module("torch").cuda, "is_available", lambda: True):
        yield


@fault("selection.clean", "foreign-code-loaded")
def xpu_hijacks_cuda():
    with patch.object(module("torch").cuda, "is_xpu_hijacked", True, create=True):
        yield


@fault("selection.clean", "foreign-code-loaded")
def ipex_is_imported_where_none_is_locked():
    name = "intel_extension_for_pytorch"
    with patch.dict(sys.modules, {name: ModuleType(name)}):
        yield


@fault("selection.clean", "foreign-code-loaded")
def cuda_counts_the_devices_of_xpu():
    torch = module("torch")
    with patch.object(torch.cuda, "device_count", torch.xpu.device_count):
        yield


@fault("selection.clean", "foreign-code-loaded")
def tensors_for_cuda_go_to_xpu():
    tensor = module("torch").Tensor
    with patch.object(tensor, "cuda", tensor.xpu):
        yield


@fault("selection.clean", "foreign-code-loaded")
def a_package_moves_tensors_in_torchs_place():
    tensor = module("torch").Tensor
    moved = tensor.to

    def to(*args, **more):
        return moved(*args, **more)

    with patch.object(tensor, "to", to):
        yield


# Fused operators ----------------------------------------------------------------------------------


@operator("fused.attention", "_safe_softmax")
def the_softmax_of_attention_is_wrong(result, x, *_args):
    # 257 words: the attention of this check, and nothing else.
    return result * 1.05 if x.shape[-1] == 257 else result


@operator("fused.adamw", "_fused_adamw_")
def the_fused_optimizer_steps_too_far(result, parameters, *_):
    for parameter in parameters:
        parameter.mul_(1.001)
    return result


OVERLOADS = {
    "mul_add": "(Tensor _0, Tensor _1, Tensor _2, Scalar _3) -> Tensor",
    "mul_add.Scalar_Tensor": "(Tensor _0, Scalar _1, Tensor _2, Scalar _3) -> Tensor",
    "mul_add.Tensor_Scalar": "(Tensor _0, Tensor _1, Scalar _2, Scalar _3) -> Tensor",
    "mul_add.Scalar_Scalar": "(Tensor _0, Scalar _1, Scalar _2, Scalar _3) -> Tensor",
}


def _mul_add(a, b, c, alpha: float):
    return a * b + alpha * c


@contextmanager
def stand_in(
    key: str,
    kernel: Callable[..., Any] = _mul_add,
    names: tuple[str, ...] = tuple(OVERLOADS),
):
    """Register torch_ipex::mul_add with a kernel for one dispatch key."""
    torch = module("torch")
    library = torch.library.Library("torch_ipex", "FRAGMENT")
    try:
        for name in names:
            library.define(name + OVERLOADS[name])
            library.impl(name, kernel, key)
        yield
    finally:
        library._destroy()
        vars(torch.ops.torch_ipex).pop("mul_add", None)


MUL_ADD: dict[str, Any] = {"expect": {"fused_ops": ["torch_ipex::mul_add"]}}


@fault("fused.operators", "", "pretend", **MUL_ADD)
def mul_add_is_registered_and_right():
    with stand_in("PrivateUse1"):
        yield


@fault("fused.operators", "fused-op-missing", "pretend", **MUL_ADD)
def mul_add_lacks_an_overload():
    with stand_in("PrivateUse1", names=tuple(OVERLOADS)[:3]):
        yield


@fault("fused.operators", "fused-op-without-kernel", "pretend", **MUL_ADD)
def mul_add_has_a_kernel_for_another_device():
    with stand_in("XPU"):
        yield


@fault("fused.operators", "wrong-numbers", "pretend", **MUL_ADD)
def mul_add_forgets_its_factor():
    with stand_in("PrivateUse1", lambda a, b, c, _alpha: a * b + c):
        yield


@fault(
    "fused.operators",
    "fused-op-without-reference",
    "pretend",
    expect={"fused_ops": ["torch_ipex::never_heard_of"]},
)
def the_spec_names_an_operator_that_nobody_can_judge():
    yield


# Rotary -------------------------------------------------------------------------------------------


@operator("rotary.eager", "sin")
def sine_is_coarse_for_large_angles(result, x):
    return result * 0.9 if bool(x.abs().max() > 1000) else result


@operator("rotary.attention", "addmm")
def the_projection_of_attention_is_wrong(result, _b, x, _w):
    # Two sentences of nine words: the attention block of this check, and nothing else.
    return result * 1.05 if x.shape[0] == 18 else result


WANTS_IPEX_LLM: dict[str, Any] = {
    "expect": {"rotary": ["half", "interleaved", "ipex-llm"]}
}
FUSED_ROTATION = """
import torch
def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor):
    width = 2 * cos.shape[-1]
    first, second = x[..., 0:width:2], x[..., 1:width:2]
    turned = torch.ops.torch_ipex.mul_add(second, cos, first * sin, 1)
    turned = torch.stack([first * cos - second * sin, turned], -1).flatten(-2)
    return torch.cat([turned, x[..., width:]], -1)
"""


@fault("rotary.scripted", "fused-op-on-cpu-backend", **WANTS_IPEX_LLM)
def a_fusion_pass_puts_mul_add_on_cpu_tensors():
    """Do what IPEX's pass makes of a scripted rotation: the operator has a kernel for XPU only."""
    source = Path(tempfile.mkdtemp(), "fused_rotation.py")
    source.write_text(FUSED_ROTATION)
    spec = importlib.util.spec_from_file_location("fused_rotation", source)
    fused = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fused)

    def script(original, _function):
        return original(fused.rotate)

    with ipex_llm(1.0), stand_in("XPU"), changed("torch.jit", "script", script):
        yield


@contextmanager
def ipex_llm(spoil: float, *, fused: bool = False):
    """Stand in for the two functions of ipex-llm, on top of the reference."""
    names = ["ipex_llm", "ipex_llm.transformers", "ipex_llm.transformers.models"]
    home, utils = (ModuleType(f"{names[-1]}.{name}") for name in ("chatglm2", "utils"))

    def forward(layer, x, _mask, rotary, _cache, _use: bool):
        wide = module("copy").deepcopy(layer).cpu().double()
        found = wide.plain(x.cpu().double(), rotary[1][0].cpu())
        return (found * spoil).to(x.dtype).to(x.device), None

    home.chatglm2_attention_forward = forward  # type: ignore[attr-defined]
    utils.should_use_fuse_rope = lambda *_args: fused  # type: ignore[attr-defined]
    fakes = {name: ModuleType(name) for name in names}
    fakes |= {home.__name__: home, utils.__name__: utils}
    low_bit = module(f"{__name__}_offload").low_bit_modules()
    with patch.dict(sys.modules, fakes | low_bit):
        yield


@fault("rotary.ipex-llm", "", **WANTS_IPEX_LLM)
def the_attention_of_ipex_llm_is_right():
    with ipex_llm(1.0):
        yield


@fault("rotary.ipex-llm", "wrong-numbers", **WANTS_IPEX_LLM)
def the_attention_of_ipex_llm_is_wrong():
    with ipex_llm(1.1):
        yield


@fault("rotary.ipex-llm", "fused-op-on-cpu-backend", **WANTS_IPEX_LLM)
def ipex_llm_takes_its_fused_rotation_on_the_cpu():
    with ipex_llm(1.0, fused=True):
        yield


@fault("rotary.ipex-llm", "missing-package", **WANTS_IPEX_LLM)
def ipex_llm_is_promised_and_absent():
    yield


LLAMA = "transformers.models.llama.modeling_llama"


@replaced("rotary.transformers", "wrong-numbers", LLAMA, "rotate_half")
def transformers_turns_the_wrong_half(_original, x):
    return x.roll(x.shape[-1] // 2, -1)


# Resume -------------------------------------------------------------------------------------------

OPTIMIZER, SCALER = "torch.optim:Optimizer", "torch.amp:GradScaler"


@replaced("resume.fresh", "resume-differs", OPTIMIZER, "load_state_dict", children=True)
def a_resume_loses_the_optimizers_state(*_args) -> None:
    """Load nothing."""


@fault("resume.state", "mixed-devices-on-resume", "pretend")
def optimizer_state_stays_on_the_cpu():
    def as_it_is(_parameter, value, *_args, **_more):
        return value

    name = "_process_value_according_to_param_policy"
    with patch.object(module("torch").optim.Optimizer, name, staticmethod(as_it_is)):
        yield


@replaced(
    "resume.order",
    "wrong-order-unnoticed",
    "smoke.reference.training",
    "mismatches",
    "pretend",
)
def stray_optimizer_state_is_not_seen(*_args) -> list[str]:
    return []


@fault("resume.trains", "optimizer-trains-nothing", "pretend")
def moving_a_model_replaces_its_parameters():
    future = module("torch").__future__
    future.set_swap_module_params_on_conversion(False)
    future.set_overwrite_module_params_on_conversion(True)
    try:
        yield
    finally:
        future.set_overwrite_module_params_on_conversion(False)
        future.set_swap_module_params_on_conversion(True)


@replaced("resume.portable", "resume-differs", "torch", "save", "pretend")
def a_checkpoint_is_saved_with_other_weights(save, state, path) -> None:
    # Only what a program saves with its tensors on the device, as this check does.
    model = state["model"] if isinstance(state, dict) else {}
    if any(type(leaf).__name__ == "PretendTensor" for leaf in model.values()):
        state["model"] = {key: value * 1.1 for key, value in model.items()}
    save(state, path)


@replaced("resume.scaler", "wrong-numbers", SCALER, "_maybe_opt_step")
def a_step_with_infinite_gradients_is_not_skipped(_step, _scaler, update, *_state):
    return update.step()


@replaced("resume.scaler", "resume-differs", SCALER, "load_state_dict")
def the_loss_scale_starts_over(*_args) -> None:
    """Load nothing."""


# Offload ------------------------------------------------------------------------------------------


@replaced("offload.cpu", "tensors-elsewhere", "accelerate", "cpu_offload", "pretend")
def cpu_offload_computes_on_the_cpu(original, model, **more):
    return original(model, **more | {"execution_device": "cpu"})


HOOK = "accelerate.hooks:AlignDevicesHook"


@replaced(
    "offload.tied", "accelerate-offload-keyerror", HOOK, "post_forward", "pretend"
)
def a_tied_weight_is_filed_under_another_name(original, hook, owner, output):
    """Do what Accelerate 1.4 and 1.5 did: file by number, look up by name."""
    for pointer, device in hook.tied_pointers_to_remove if hook.offload else ():
        if isinstance(device, int):
            del hook.tied_params_map[pointer][f"pretend:{device}"]
    return original(hook, owner, output)


# Speed, precision, compiler, memory, transfer -----------------------------------------------------


@fault("throughput.training", "slow", "pretend", expect={"speedup_over_cpu": 1000.0})
def the_device_is_no_faster_than_the_cpu():
    checks = module("smoke.checks.test_throughput")
    plates = checks.plates
    fewer = patch.object(checks, "ROUNDS", 2)
    with patch.object(checks, "plates", lambda _count: plates(2)), fewer:
        yield


@fault("throughput.training", "tensors-elsewhere", "pretend")
def the_model_stays_on_the_cpu():
    models = module("smoke.reference.models")
    with patch.object(models.PlateReader, "to", lambda self, *_args: self, create=True):
        yield


@replaced("autocast.forward", "autocast-has-no-effect", "torch", "autocast")
def autocast_does_nothing(*_args, **_more) -> ExitStack:
    return ExitStack()


@fault("compile.mul_add", "compile-falls-back", children=True)
def compilation_is_switched_off():
    with module("torch._dynamo").config.patch(disable=True):
        yield


@replaced("compile.mul_add", "compile-falls-back", "torch", "compile", children=True)
def a_graph_is_run_without_kernels(plain, function, **more):
    return plain(function, backend="eager", **more)


def kernels(graph, _inputs):
    """Compile nothing, as a back end that counts a kernel."""
    module("torch._inductor.metrics").generated_kernel_count += 1
    return graph.forward


@replaced("compile.mul_add", "wrong-numbers", "torch", "compile", children=True)
def the_compiled_kernel_is_wrong(plain, _function, **_more):
    return plain(lambda a, b, c: a * b + c, backend=kernels, fullgraph=True)


KEPT: list[Any] = []


@operator("memory.leak", "gelu_backward", "memory-leak")
def each_step_keeps_a_little(result, *_args):
    KEPT.append(module("pretend").wrap(result.clone()))
    return result


@replaced("memory.release", "memory-not-released", "torch", "ones", "pretend")
def a_deleted_tensor_keeps_its_memory(ones, *size, **more):
    tensor = ones(*size, **more)
    if size == (2**24,):
        KEPT.append(tensor)
    return tensor


@fault("memory.release", "")
def a_tensor_lies_in_freed_memory_that_was_kept():
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    size = 30 * 2**20
    # Freed once, blocks of this size are taken from the heap (mallopt(3), M_MMAP_THRESHOLD).
    library.free(library.malloc(size + 2**20))
    blocks = [library.malloc(size) for _ in range(8)]
    above = library.malloc(size)  # else the heap shrinks
    for block in blocks:
        ctypes.memset(block, 1, size)
        library.free(block)
    yield
    library.free(above)


@replaced("memory.exhausted", "out-of-memory-not-refused", "torch", "empty", "pretend")
def more_memory_is_granted_than_there_is(empty, *size, **more):
    return None if size == (2**50,) else empty(*size, **more)


@operator("transfer.roundtrip", "_to_copy", "transfer-corrupts")
def bytes_change_on_their_way(result, source):
    small = source.shape == (130, 70) and str(source.dtype) == "torch.uint8"
    return result ^ 1 if small else result


@fault("transfer.speed", "slow", "pretend")
def the_link_is_as_slow_as_can_be():
    def synchronize(_device) -> None:
        module("time").sleep(0.002)

    with patch.object(module("smoke.device.devices"), "synchronize", synchronize):
        yield


# Children -----------------------------------------------------------------------------------------


@fault("collective.sum", "backend-not-built")
def torch_has_no_distributed_package():
    with patch.object(module("torch").distributed, "is_available", lambda: False):
        yield


@replaced(
    "collective.sum",
    "wrong-numbers",
    "torch.distributed",
    "all_reduce",
    children=True,
)
def the_sum_leaves_one_process_out(*_args, **_more) -> None:
    """Leave each process with its own numbers."""


@fault("noise.imports", "", children=True)
def a_healthy_stack_prints_what_is_known():
    os.write(2, b"UserWarning: Can't initialize Level Zero Sysman\n")
    os.write(2, b"  return _enum_zes_device_infos(visible_mask)\n")
    yield


@fault("noise.imports", "unknown-warning", children=True)
def a_library_prints_something_new():
    os.write(2, b"[W] level_zero: firmware 1.2 is not known to this loader\n")
    yield


@replaced("noise.imports", "op-fails", "torch", "ones", children=True)
def the_fresh_process_raises(ones, *size, **more):
    if size == (4, 4):
        raise RuntimeError("the runtime has lost its device")
    return ones(*size, **more)


@fault("noise.imports", "process-died", children=True)
def the_fresh_process_dies():
    if "SMOKE_CHILD" in os.environ:
        os._exit(127)
    yield


importlib.import_module(f"{__name__}_offload")
importlib.import_module(f"{__name__}_group")
importlib.import_module(f"{__name__}_health")
importlib.import_module(f"{__name__}_operators")
importlib.import_module(f"{__name__}_models")
importlib.import_module(f"{__name__}_programs")
importlib.import_module(f"{__name__}_known_wrong")
