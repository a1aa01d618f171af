"""Probe the device, and find out why it is not usable.

The reasons are tested in this order, because each hides those after it: torch is not built for it,
driver missing, driver too old, no permission, no device, operations fail. Other checks report the
rest: unsupported (``device.family``), wrong numbers (each check), slow (``throughput``), process
died or hung (the supervisor).
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

import torch

from smoke import device as devices
from smoke.finding import fail

if TYPE_CHECKING:
    from smoke.checks import Numbers

NODES = {"cuda": "/dev/nvidia[0-9]*", "xpu": "/dev/dri/renderD*"}
WSL = "/dev/dxg"  # the one door to every GPU there; WSL has no driver for a GPU of its own


# By the maker: the driver is Windows', and only Intel has a part of it inside of WSL.
IN_WSL = {
    "cuda": "update NVIDIA's driver in Windows, then `wsl --update` and `wsl --shutdown`",
    "xpu": "update Intel's driver in Windows, then `wsl --update` and `wsl --shutdown`; "
    "install libze1 and libze-intel-gpu1 in WSL",
}


def probe_device(accelerator: str, numbers: Numbers) -> torch.device:
    """Return the device after a first operation on it gave the right result.

    Raises:
        CheckFailed: The device is not usable; the finding gives the first reason.
    """
    numbers.step("look for the device")
    _compiled(accelerator)
    if accelerator != "cpu":
        _available(accelerator)
    numbers.step("first operation")
    device = devices.of(accelerator)
    total = float((torch.ones(64, 64).to(device) @ torch.ones(64, 64).to(device)).sum().cpu())
    numbers.within("first operation", abs(total / 64**3 - 1), 0.0)
    return device


def _compiled(accelerator: str) -> None:
    if not devices.compiled(accelerator):
        fail("cpu-build-of-torch-installed",
             f"torch {torch.__version__} is built without {accelerator}",
             evidence=[f"torch.version.cuda = {torch.version.cuda}"])  # fmt: skip


def _available(accelerator: str) -> None:
    module = devices.backend(devices.of(accelerator))
    if module.is_available() and module.device_count() > 0:
        return
    nodes = sorted(glob.glob(NODES[accelerator])) if os.name == "posix" else []  # noqa: PTH207
    message, driver = _init_error(module), devices.driver(accelerator)
    code, cause, remedy = _reason(accelerator, message, driver, nodes)
    evidence = [
        f"torch.{accelerator}.is_available() = {module.is_available()}",
        f"torch.{accelerator}.device_count() = {module.device_count()}",
        f"driver = {driver}",
        f"device nodes = {' '.join(nodes) or 'none'}",
        f"torch reports: {message}",
    ]
    fail(code, f"no {accelerator} device is usable", cause=cause, remedy=remedy, evidence=evidence)


def _reason(
    accelerator: str, message: str, driver: str | None, nodes: list[str]
) -> tuple[str, str, str]:
    """Return code, cause and remedy for a device that torch does not find."""
    # CUDA's runtime reports an insufficient driver where there is none, too.
    if "too old" in message or ("driver version is insufficient" in message and (driver or nodes)):
        return "driver-too-old", "the driver is older than this build needs", "upgrade the driver"
    closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if closed and len(closed) == len(nodes):
        return (
            "no-render-permission",
            f"this user may not open {closed[0]}",
            "add the user to the group that owns it (render or video), then log in again",
        )
    if not nodes and os.path.exists(WSL):  # noqa: PTH110
        return (
            "driver-missing",
            f"WSL offers its GPU by {WSL}, and no library of this system found a device there",
            IN_WSL[accelerator],
        )
    # Containers can hide NVML, and with it the version, from a driver that is loaded.
    if accelerator == "cuda" and driver is None and not nodes:
        return "driver-missing", "no NVIDIA driver is loaded", "install the NVIDIA driver"
    if accelerator == "xpu" and not nodes and os.name == "posix":
        return (
            "driver-missing",
            "there is no render node: no kernel driver is bound to a GPU",
            "install Intel's GPU driver (i915 or xe), and pass /dev/dri into a container",
        )
    return (
        "no-gpu-device-visible",
        "the driver is installed, but no device is visible to this process",
        "check CUDA_VISIBLE_DEVICES, ZE_AFFINITY_MASK, ONEAPI_DEVICE_SELECTOR and the container",
    )


def _init_error(module: object) -> str:
    """Return the first line of the error with which torch refuses to initialise the device."""
    try:
        module.init()  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - its text is the result
        return (str(error).strip() or repr(error)).splitlines()[0]
    return "nothing"
