"""Probe the device, and find out why it is not usable.

The reasons are tested in this order, because each hides those after it: torch is not built for it,
driver missing, driver too old, no permission, no device, operations fail. Other checks report the
rest: unsupported (``device.family``), wrong numbers (each check), slow (``throughput``), process
died or hung (the supervisor).
"""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from smoke import device as devices
from smoke.finding import fail

if TYPE_CHECKING:
    from smoke.checks import Numbers

NODES = {"cuda": "/dev/nvidia[0-9]*", "xpu": "/dev/dri/renderD*"}
WSL = "/dev/dxg"  # the one door to every GPU there; WSL has no driver for a GPU of its own
# Why a device is absent: code, cause and remedy.
ABSENT = json.loads(Path(__file__).with_name("absent.json").read_text(encoding="utf-8"))


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
    pattern = NODES.get(accelerator, "") if os.name == "posix" else ""
    nodes = sorted(glob.glob(pattern))  # noqa: PTH207
    message, driver = _init_error(module), devices.driver(accelerator)
    code, *texts = ABSENT[_reason(accelerator, message, driver, nodes)]
    cause, remedy = (text.format(node=" ".join(nodes[:1]), wsl=WSL) for text in texts)
    evidence = [
        f"torch.{accelerator}.is_available() = {module.is_available()}",
        f"torch.{accelerator}.device_count() = {module.device_count()}",
        f"driver = {driver}",
        f"device nodes = {' '.join(nodes) or 'none'}",
        f"torch reports: {message}",
    ]
    fail(code, f"no {accelerator} device is usable", cause=cause, remedy=remedy, evidence=evidence)


def _reason(accelerator: str, message: str, driver: str | None, nodes: list[str]) -> str:
    """Return why torch finds no device, as `ABSENT` names it."""
    # CUDA's runtime reports an insufficient driver where there is none, too.
    if "too old" in message or ("driver version is insufficient" in message and (driver or nodes)):
        return "too-old"
    if nodes and not any(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        return "no-permission"
    if not nodes and os.path.exists(WSL):  # noqa: PTH110
        return f"wsl-{accelerator}"
    # Containers can hide NVML, and with it the version, from a driver that is loaded.
    gone = driver is None if accelerator == "cuda" else os.name == "posix"
    return accelerator if gone and not nodes else "invisible"


def _init_error(module: object) -> str:
    """Return the first line of the error with which torch refuses to initialise the device."""
    try:
        module.init()  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - its text is the result
        return (str(error).strip() or repr(error)).splitlines()[0]
    return "nothing"
