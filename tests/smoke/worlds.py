"""Let torch present one real device: its functions agree with what the pretend device says.

A world is plain JSON, made by `profiles.py` of one target and one device profile. Many worlds share
one process, because torch takes seconds to import. The suite's fresh processes are forked from a
server that has imported torch and used no device, so that they are as fresh, and cheap.

Not played: Inductor and Triton (a stand-in compiles nothing), the wire between processes (Gloo sums
for NCCL and XCCL), what Windows itself does (``sys.platform`` stays), the kernels' rounding.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import accelerate  # noqa: F401 - imported before any world: they look at torch's version then
import faults
import pretend
import torch
import transformers.models.glm.modeling_glm
import transformers.models.llama.modeling_llama
import transformers.models.whisper.modeling_whisper  # noqa: F401
from torch import distributed
from torch._inductor import metrics as inductor_metrics
from torch.utils._pytree import tree_map

from smoke.device import (
    compilers,
    devices,
)
from smoke.engine import child_process, pytest_plugin, worker  # noqa: F401
from smoke.engine.check_files import check_files
from smoke.engine.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

World = dict[str, Any]
# What a world imports is forgotten with it, see `_compilers`: pytest, for one, took a third of a
# second each time.
CHECKS = [import_module(f"smoke.checks.{path.stem}") for path in check_files()]
KEPT = [
    each
    for module in CHECKS
    for each in vars(module).values()
    if hasattr(each, "cache_clear")
]
# Torch's tests try the CUDA device when they are imported.
import_module("smoke.reference.offered").entries()


@contextmanager
def play(world: World):
    """Be the device of a world while this lasts."""
    says = {**pretend.SAYS, **world["says"]}
    if number := world.get(
        "device", 0
    ):  # the one that the run is for is the first it sees
        says |= {**says["others"][number - 1], "others": [world["says"]]}
    pretend.QUEUE.reset()
    for each in KEPT:  # as if they were imported anew
        each.cache_clear()
    with ExitStack() as stack:
        stack.enter_context(patch.dict(pretend.SAYS, says))
        for target, name, value in _replaced(world):
            stack.enter_context(patch.object(target, name, value, create=True))
        stack.enter_context(_compilers(world))
        stack.enter_context(_packages(world))
        yield


def _replaced(world: World) -> Iterator[tuple[object, str, Any]]:
    """Yield what of torch and of the suite is another for this device."""
    yield from _of_suite(world)
    yield from _of_torch(world)
    for kind in ("cuda", "xpu"):
        yield from _backend(world, kind)


def _of_torch(world: World) -> Iterator[tuple[object, str, Any]]:
    """Yield what of torch is another, but for the modules of the accelerators."""
    yield torch.Tensor, "pin_memory", _pin(world)
    # Loaders of torch 2.1 name the device that they pin for, later ones know it.
    loaders = import_module("torch.utils.data._utils.pin_memory")
    yield loaders, "pin_memory", lambda data, _device=None: data
    yield torch.Tensor, "to", faults.as_of(torch, _to(world), "to")
    yield torch, "compile", _compile(world)
    yield torch, "load", partial(pretend.load, torch.load)
    yield distributed, "init_process_group", _init_process_group(world)
    for name in ("all_reduce", "all_gather", "broadcast"):
        yield distributed, name, _on_host(getattr(distributed, name))
    yield distributed, "is_nccl_available", lambda: "nccl" in world["collectives"]
    yield distributed, "is_xccl_available", lambda: "xccl" in world["collectives"]


def _of_suite(world: World) -> Iterator[tuple[object, str, Any]]:
    """Yield what of the suite is another: where it looks, what it starts, how much it does."""
    accelerator = world["accelerator"]
    cpu = torch.device("cpu")
    yield devices, "of", lambda name: cpu if name == "cpu" else pretend.DEVICE
    yield devices, "compiled", lambda _name: True
    yield devices, "kind", lambda device: accelerator if device.type != "cpu" else "cpu"
    yield devices.sensors, "nvidia_driver", lambda: world["nvml"]
    yield from _metal(world)
    yield child_process, "call", _call(world)
    yield child_process, "begin", lambda _calls: None  # it would start other processes
    # WSL has one door to its GPU, and no render node.
    probe, wsl = import_module("smoke.checks.test_device"), bool(world["nodes"])
    nodes = "/nowhere" if wsl else "/dev/nul[l]"
    yield probe, "NODES", {"cuda": nodes, "xpu": nodes}
    yield probe, "WSL", "/dev/null" if wsl else "/nowhere"
    # Its speed is the CPU's: fewer images and rounds suffice.
    speed = import_module("smoke.checks.test_throughput")
    plates = import_module("smoke.reference.models").plates
    yield speed, "plates", lambda _count: plates(2)
    yield speed, "ROUNDS", 2
    samples = import_module("smoke.checks.test_samples")
    yield samples, "MOST", 4
    # Recurrent ones have fused cells, which the CPU cannot play.
    yield samples, "MODULES", 0
    yield samples, "UNFIT", re.compile(f"{samples.UNFIT.pattern}|{pretend.UNFIT}")


# What the module of an accelerator has.
OF_BACKEND = (
    "device_count",
    "get_device_name",
    "get_device_capability",
    "get_device_properties",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "synchronize",
    "empty_cache",
)


def _backend(world: World, kind: str) -> Iterator[tuple[object, str, Any]]:
    """Yield the module of an accelerator: that of the device, or one that has none."""
    module, chosen = getattr(torch, kind), kind == world["accelerator"]
    yield module, "is_available", _named(module, chosen)
    if chosen:
        backend = pretend.Backend()
        for name in OF_BACKEND:
            yield module, name, faults.as_of(module, getattr(backend, name))
        yield module, "get_arch_list", lambda: list(world["arch_list"])


def _metal(world: World) -> Iterator[tuple[object, str, Any]]:
    """Yield what torch says of the GPU of a Mac: the device is its one, and has other functions."""
    if world["accelerator"] != "mps":
        return
    backend = pretend.Backend()
    said = {
        "device_count": backend.device_count,
        "is_available": backend.is_available,
        "synchronize": backend.synchronize,
        "empty_cache": backend.empty_cache,
        "current_allocated_memory": backend.memory_allocated,
        "recommended_max_memory": lambda: pretend.says()["memory"],
        # It draws with the host's generator, whose state is saved with it.
        "manual_seed": lambda _seed: None,
        "get_rng_state": lambda _device: torch.get_rng_state(),
        "set_rng_state": lambda _state, _device: None,
    }
    for name in dir(torch.mps):  # nothing of the real one answers here
        if name in torch.mps.__all__:
            yield torch.mps, name, said.get(name, _absent(name))
    yield torch.backends.mps, "is_available", backend.is_available
    yield torch.backends.mps, "get_name", backend.get_device_name
    yield (
        devices.platform,
        "mac_ver",
        lambda: (pretend.says()["driver"] or "", (), "arm64"),
    )
    yield (
        devices,
        "backend",
        lambda device: None if device.type == "cpu" else devices._Metal(),
    )


def _absent(name: str) -> Callable[..., Any]:
    def absent(*_args, **_more):
        raise AssertionError(f"torch.mps.{name} is not played")

    return absent


def _named(module: ModuleType, answer: bool) -> Callable[[], bool]:
    def is_available() -> bool:
        return answer and bool(pretend.SAYS["available"])

    return faults.as_of(module, is_available)


def _pin(world: World) -> Callable[..., Any]:
    def pin_memory(tensor, device=None):
        if (
            world["release"] < [2, 2]
            and world["accelerator"] == "xpu"
            and device is None
        ):
            raise RuntimeError("Cannot initialize CUDA without ATen_cuda library")
        return tensor

    return pin_memory


def _to(world: World, to: Callable[..., Any] = torch.Tensor.to) -> Callable[..., Any]:
    """Return Tensor.to; a number means CUDA to the torch of IPEX 2.1."""

    def moved(tensor, *args, **kwargs):
        number = args[0] if args else kwargs.get("device")
        integer = isinstance(number, int) and not isinstance(number, bool)
        if integer and world["release"] < [2, 2] and world["accelerator"] == "xpu":
            raise AssertionError("Torch not compiled with CUDA enabled")
        return to(tensor, *args, **kwargs)

    return moved


def _compile(world: World) -> Callable[..., Any]:
    """Return torch.compile: it raises what the profile lacks, or counts a kernel."""

    def compile_(
        function: Callable[..., Any], backend="inductor", **_more
    ) -> Callable[..., Any]:
        def compiled(*args):
            if world["compile_error"]:
                raise RuntimeError(world["compile_error"])
            if _skipped(world, args):
                if world["release"] >= [2, 12]:
                    raise RuntimeError(NO_BFLOAT16)
                return function(*args)
            if backend != "eager":
                inductor_metrics.generated_kernel_count += 1
            return function(*args)

        return compiled

    return compile_


# Inductor skips such graphs (pytorch/pytorch#129288); a full graph may not be, since torch 2.12
# (pytorch/pytorch#177809).
NO_BFLOAT16 = "does not support bfloat16 compilation natively, skipping"


def _skipped(world: World, args) -> bool:
    """Return whether Inductor compiles nothing for these inputs on the GPU of a world."""
    if world["accelerator"] != "cuda":
        return False
    capability = tuple(map(int, pretend.says()["capability"].split(".")))
    return capability < (8, 0) and any(x.dtype == torch.bfloat16 for x in args)


def _init_process_group(
    world: World, init: Callable[..., None] = distributed.init_process_group
) -> Callable[..., None]:
    def init_process_group(backend: str | None = None, **more) -> None:
        if backend != "gloo" and backend not in world["collectives"]:
            raise RuntimeError(
                f"Distributed package doesn't have {str(backend).upper()} built in"
            )
        init("gloo", **more)

    return init_process_group


def _on_host(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a collective that the host does: Gloo sums for NCCL and XCCL."""

    def on_host(*args, **more):
        return plain(*tree_map(pretend.unwrap, args), **more)

    return on_host


@contextmanager
def _compilers(world: World):
    """Hide every compiler where the profile has none on its path; let Triton's driver be there."""
    find = shutil.which
    words = ("cc", "gcc", "g++", "c++", "clang", "clang++", "cl", "icx", "icpx")

    def which(name: str, *args, **more) -> str | None:
        return (
            None
            if Path(name).name.removesuffix(".exe") in words
            else find(name, *args, **more)
        )

    hidden = {"CC": "", "CXX": ""}
    # It asks for no header of Level Zero, which this machine does not have.
    names = [
        "triton",
        "triton.backends",
        "triton.backends.intel",
        "triton.backends.intel.driver",
    ]
    triton = {name: ModuleType(name) for name in names}
    triton[names[-1]].__file__ = __file__
    with (
        patch.dict(sys.modules, triton),
        patch.object(compilers, "compiles", _compiles),
    ):
        if world["compiler"]:
            yield
            return
        with patch.object(shutil, "which", which), patch.dict(os.environ, hidden):
            yield


def _compiles(
    compiler: str | None,
    headers,
    compiles: Callable[..., str] = compilers.compiles,
    known: dict[str, str] = {},  # noqa: B006 - kept for the next world on purpose
    **more,
) -> str:
    """Compile with what the probe compiles with, once for all worlds."""
    asked = repr((compiler, headers, more))
    if asked not in known:
        known[asked] = compiles(compiler, headers, **more)
    return known[asked]


@contextmanager
def _packages(world: World):
    """Let the distributions of the target's stack be installed, in place of this environment's."""
    with ExitStack() as stack:
        folder = stack.enter_context(
            faults.distributions(*map(tuple, world["distributions"]))
        )
        Path(folder, "torch").mkdir()
        Path(folder, "torch", "version.py").write_text(
            world["version_file"], encoding="utf-8"
        )
        stack.enter_context(
            patch.object(metadata, "distributions", _without(world, folder))
        )
        if "intel-extension-for-pytorch" in world["expect"]["packages"]:
            stack.enter_context(faults.stand_in("PrivateUse1"))
            name = "intel_extension_for_pytorch"
            stack.enter_context(patch.dict(sys.modules, {name: ModuleType(name)}))
        if "ipex-llm" in world["expect"]["rotary"]:
            stack.enter_context(faults.ipex_llm(1.0, fused=True))
        yield


def _without(
    world: World, folder: Path, listed: Callable[..., Any] = metadata.distributions
) -> Callable[..., Any]:
    """Return the distributions but those that the world has in another version."""
    replaced = {name for name, _version, _top in world["distributions"]}

    def distributions(**more):
        for each in listed(**more):
            name = each.metadata["Name"].lower().replace("_", "-")
            if name not in replaced or Path(str(each.locate_file(""))) == folder:
                yield each

    return distributions


# Fresh processes ----------------------------------------------------------------------------------


def _call(world: World) -> Callable[..., child_process.Answer]:
    """Return `child_process.call`, whose processes are forked and live in this world."""

    def call(
        function: str, *, timeout: float = 100.0, **arguments
    ) -> child_process.Answer:
        with tempfile.TemporaryDirectory(prefix="smoke-") as name:
            folder = Path(name)
            (folder / "arguments.json").write_text(
                json.dumps(arguments), encoding="utf-8"
            )
            process = CONTEXT.Process(target=answer, args=(world, function, name))
            with patch.object(sys, "path", PATH):
                process.start()
            process.join(timeout)
            log = (folder / "output.log").read_text(encoding="utf-8", errors="replace")
            if process.exitcode is None:
                process.kill()
                process.join()
                return child_process.Answer(None, child_process.hung(timeout), log)
            if process.exitcode != 0 or not (folder / "answer.json").exists():
                return child_process.Answer(
                    None, child_process.died(process.exitcode, log), log
                )
            reply = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
        finding = Finding(**reply["finding"]) if reply["finding"] else None
        return child_process.Answer(reply["value"], finding, log)

    return call


def answer(world: World, function: str, folder: str) -> None:
    """Run as the forked process: call one function of the suite in this world."""
    log = os.open(Path(folder, "output.log"), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["SMOKE_CHILD"] = "1"
    for line in world["import_prints"]:
        os.write(2, line.encode() + b"\n")
    with play(world):
        worker._call(function, Path(folder))
        os._exit(
            0
        )  # at once: this process is a copy of a large one, whose objects need no tidying


# Without the metadata that a world puts in front: transformers reads it in a fresh process.
PATH = [*sys.path]
gc.freeze()  # a process that is forked from this one need not search what it never changes
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["__main__"])
