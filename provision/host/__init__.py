"""This machine, or a recorded one: every probe is thin, every parse is pure, nothing raises."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.process import run
from provision.host import intel, nvidia, permissions, sysfs, virtualization, windows
from provision.host.model import Host, Runtimes
from provision.host.root import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provision.catalog.devices import Devices
    from provision.host.model import Gpu, User

# Variables that change which device a program sees or which library it loads.
_TELLING = (
    "ONEAPI_", "SYCL_", "ZE_", "UR_", "ZET_", "NEO_", "OCL_ICD_", "SETVARS_", "CMPLR_ROOT",
    "MKLROOT", "CCL_ROOT", "CUDA_", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE",
    "PYTORCH_", "TORCH_", "IPEX_", "IGC_", "VIRTUAL_ENV", "CONDA_PREFIX",
)  # fmt: skip
_MACHINES = {"x86_64": "64", "amd64": "64", "aarch64": "aarch64", "arm64": "arm64"}


def read_host(
    devices: Devices,
    *,
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    user: User | None = None,
) -> Host:
    """Read what this machine has, without torch, root rights or other programs.

    Args:
        devices: The device catalog.
        root: Another folder than ``/`` holds a recorded Linux machine.
        environ: The environment to judge; by default this process's.
        user: Whose rights on device files to judge; by default those of this process.
    """
    environ = os.environ if environ is None else environ
    telling = {n: environ[n] for n in sorted(environ) if n.upper().startswith(_TELLING)}
    tree = Tree(root)
    if sys.platform == "win32" and tree.live:
        return read_windows(windows.probe(), devices, telling, platform.version())
    return _read_linux(tree, devices, telling, environ, user)


def read_windows(
    found: Mapping[str, Mapping[str, str | int]],
    devices: Devices,
    variables: Mapping[str, str],
    kernel: str,
) -> Host:
    """Return the host that a Windows device tree describes."""
    system = Path(os.environ.get("SYSTEMROOT", "C:\\Windows")) / "System32"
    gpus = windows.parse(found, devices)
    loader = (system / "ze_loader.dll").exists()
    cuda = next((g.driver.version for g in gpus if g.vendor == "nvidia" and g.driver), None)
    return Host(
        platform="win-64",
        kernel=kernel,
        gpus=tuple(gpus),
        runtimes=Runtimes(level_zero="" if loader else None, cuda=cuda),
        variables=dict(variables),
    )


def _read_linux(
    tree: Tree,
    devices: Devices,
    variables: Mapping[str, str],
    environ: Mapping[str, str],
    user: User | None,
) -> Host:
    groups = permissions.group_names(tree)
    user = user or permissions.this_user(groups)
    names = intel.libraries(tree)
    runtimes = Runtimes(
        level_zero=intel.loader_version(names),
        compute_runtime=intel.compute_runtime_version(names, devices),
        opencl=intel.opencl_libraries(tree),
        cuda=nvidia.cuda_version(names),
    )
    gpus = _linux_gpus(tree, devices, user, groups)
    return Host(
        platform=this_platform(),
        kernel=tree.text("proc/sys/kernel/osrelease"),
        firmware=tree.text("sys/class/dmi/id/bios_version"),
        surroundings=virtualization.probe(tree, environ),
        gpus=tuple(gpus),
        runtimes=runtimes,
        user=user,
        variables=dict(variables),
        remarks=tuple(_remarks(gpus, runtimes)),
    )


def _linux_gpus(tree: Tree, devices: Devices, user: User, groups: dict[int, str]) -> list[Gpu]:
    entries = sysfs.probe(tree)
    nvidia_index = 0
    gpus = []
    for entry in entries:
        paths = [f"/dev/dri/{name}" for name in entry.drm if name.startswith("renderD")]
        if entry.driver == "nvidia":
            paths = ["/dev/nvidiactl", f"/dev/nvidia{nvidia_index}"]
            nvidia_index += 1
        gpus.append(sysfs.parse(entry, devices, permissions.nodes(tree, paths, user, groups)))
    if virtualization.is_wsl(tree):
        gpus = [gpu for gpu in gpus if gpu.vendor != "other"] + intel.behind_wsl(tree)
    return nvidia.merge(gpus, _nvidia_cards(tree, gpus))


def _nvidia_cards(tree: Tree, gpus: list[Gpu]) -> list[nvidia.Card]:
    if not any(gpu.vendor == "nvidia" for gpu in gpus) and not tree.exists("dev/dxg"):
        return []
    cards = nvidia.probe_proc(tree)
    if tree.live:
        cards = nvidia.probe_nvml() or nvidia.parse_tool(nvidia.probe_tool(run)) or cards
    return cards


def _remarks(gpus: list[Gpu], runtimes: Runtimes) -> list[str]:
    module = next((g.driver.version for g in gpus if g.vendor == "nvidia" and g.driver), None)
    if module and runtimes.cuda and module != runtimes.cuda:
        versions = f"NVIDIA's kernel module is {module} but its library {runtimes.cuda}"
        return [f"{versions}: an update waits for a restart"]
    return []


def this_platform() -> str:
    """Return conda's name of the platform that this process runs on."""
    system = {"win32": "win", "darwin": "osx"}.get(sys.platform, "linux")
    machine = platform.machine().lower()
    return f"{system}-{_MACHINES.get(machine, machine)}"
