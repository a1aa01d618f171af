"""Whether a GPU can serve a target, and what has to be repaired first; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from provision.host.drivers import DriverVerdict, driver_remedy, judge_driver, satisfies

if TYPE_CHECKING:
    from provision.host.model import Gpu, Host, Node
    from provision.spec.parts import TargetHardware

VENDOR_NAMES = {"nvidia": "NVIDIA", "intel": "Intel", "amd": "AMD"}


class Obstacle(NamedTuple):
    """What keeps a GPU of the right kind from serving a target."""

    reason: str
    remedy: str


def incompatibility(target: TargetHardware, gpu: Gpu) -> str:
    """Return why no repair makes a GPU serve a target, or ""."""
    if gpu.family is None and gpu.compute_capability is None and not gpu.supported:
        # Behind WSL there is no device id: the model is unknown, which is an obstacle only.
        return "" if not gpu.device_id else f"device id {gpu.device_id} is not in the catalog"
    if not gpu.supported:
        return f"PyTorch has no {target.accelerator.upper()} kernels for its family {gpu.family}"
    # A chip newer than the catalog has no family: only its compute capability is judged.
    if target.families and gpu.family and gpu.family not in target.families:
        return f"its family {gpu.family} is not one of {', '.join(target.families)}"
    capability, required = gpu.compute_capability, target.compute_capability
    if required and capability and not satisfies(capability, required):
        return f"compute capability {capability} is not {required}"
    return ""


def obstacles(
    target: TargetHardware, gpu: Gpu, host: Host, hidden_by: str | None
) -> Iterator[Obstacle]:
    """Yield what has to be repaired before a GPU serves a target, causes before consequences.

    A GPU without a kernel driver, for instance, has no device files with permissions to repair.
    ``hidden_by`` is ``NAME=value`` of the variable that hides the GPU, if any.
    """
    if not gpu.device_id and gpu.vendor == "intel":
        yield Obstacle(
            "WSL does not show which model it is",
            f"if it is an Arc or a Core Ultra, run `provision build {target.name}`",
        )
    if gpu.driver is None:
        maker = VENDOR_NAMES[gpu.vendor]
        yield Obstacle("no driver is bound to it", f"install {maker}'s driver, then restart")
    yield from (_node_obstacle(node, host) for node in gpu.nodes if not node.usable)
    yield from _driver_obstacles(target, gpu, host)
    if hidden_by is not None:
        yield Obstacle(f"{hidden_by} hides it", f"unset {hidden_by.partition('=')[0]}")


def _node_obstacle(node: Node, host: Host) -> Obstacle:
    if node.present:
        return Obstacle(
            f"this user may not use {node.path}, which belongs to group {node.group}",
            f"sudo usermod -aG {node.group} $USER, then log in again",
        )
    if containers := [layer for layer in host.surroundings if layer not in ("wsl", "vm")]:
        return Obstacle(
            f"{node.path} is not in this {containers[-1]} container",
            f"start the container with --device {node.path.rpartition('/')[0]}, or --gpus all",
        )
    return Obstacle(f"{node.path} does not exist", "load the kernel driver again, or restart")


def _driver_obstacles(target: TargetHardware, gpu: Gpu, host: Host) -> Iterator[Obstacle]:
    # In WSL, Level Zero and the user-mode driver come mounted from Windows.
    if gpu.vendor == "intel" and host.platform == "linux-64" and "wsl" not in host.surroundings:
        if host.runtimes.compute_runtime is None:
            yield Obstacle(
                "Intel's user-mode driver libze_intel_gpu.so.1 is not installed",
                "install libze-intel-gpu1 (older name: intel-level-zero-gpu)",
            )
        if host.runtimes.level_zero is None:
            yield Obstacle("the Level Zero loader libze_loader.so.1 is absent", "install libze1")
    if target.driver:
        judged = judge_driver(gpu, host, target.driver)
        if judged.verdict is DriverVerdict.TOO_OLD:
            remedy = driver_remedy(gpu, host, target.driver)
            yield Obstacle(judged.reason, remedy[0].lower() + remedy[1:])
