"""The device under test: its torch.device, its backend module, and the facts that it reports."""

import contextlib
import functools
import os
import platform
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from smoke.device import sensors


def number() -> int:
    """Return the number of the device that this process is to check, as torch counts."""
    # The worker sets it, also for its children.
    return int(os.environ.get("SMOKE_DEVICE", "0"))


def of(accelerator: str) -> torch.device:
    """Return the device of an accelerator that this process is to check."""
    if accelerator == "cpu":
        return torch.device("cpu")
    return torch.device(accelerator, number())


def count(accelerator: str) -> int:
    """Return the number of devices that this process sees."""
    if accelerator == "cpu":
        return 1
    return int(backend(of(accelerator)).device_count())


def kind(device: torch.device) -> str:
    """Return the accelerator of a device: ``cpu``, ``cuda``, ``xpu`` or ``mps``."""
    return str(device.type)


def backend(device: torch.device) -> Any:
    """Return the module that drives the device, as ``torch.cuda``; None for the CPU."""
    if device.type == "mps":
        return _Metal()
    if device.type == "cpu":
        return None
    return getattr(torch, device.type, None)


class _Metal:
    """torch.mps, with what the modules of other devices have as well; its memory is the Mac's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.mps, name)

    def init(self) -> None:
        torch.empty(0, device="mps")

    def get_device_name(self, _: object = None) -> str:
        return str(torch.backends.mps.get_name())

    def get_device_properties(self, _: object = None) -> SimpleNamespace:
        return SimpleNamespace(
            total_memory=torch.mps.recommended_max_memory(),
            has_fp64=False,
            driver_version=platform.mac_ver()[0] or None,
        )

    def memory_allocated(self, _: object = None) -> int:
        return int(torch.mps.current_allocated_memory())


def computes(device: torch.device) -> bool:
    """Return whether a device computes in this process: after an error of a kernel none may.

    CUDA says so of such errors (cudaErrorMisalignedAddress and others): the process has to end.
    """
    try:
        return float(torch.ones(1, device=device).add(1).cpu()) == 2.0
    except RuntimeError:
        return False


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if module := backend(device):
        module.synchronize()


def compiled(accelerator: str) -> bool:
    """Return whether this torch was built for the accelerator; calls no driver."""
    if accelerator == "cuda":
        return torch.version.cuda is not None
    if accelerator == "xpu":
        probe = getattr(getattr(torch, "xpu", None), "_is_compiled", None)
        # In the legacy stacks IPEX provides torch.xpu, without _is_compiled.
        return bool(probe()) if probe else hasattr(torch, "xpu")
    return accelerator != "mps" or bool(torch.backends.mps.is_built())


def facts(device: torch.device) -> dict[str, Any]:
    """Return the facts that the device reports: name, count, memory in bytes, driver version."""
    if device.type == "cpu":
        return {"name": _cpu_name(), "count": 1, "threads": torch.get_num_threads()}
    module, accelerator = backend(device), kind(device)
    properties = module.get_device_properties(device)
    capability = None
    if accelerator == "cuda":
        capability = f"sm_{properties.major}{properties.minor}"
    return {
        "name": module.get_device_name(device),
        "count": module.device_count(),
        "memory": properties.total_memory,
        "driver": driver(accelerator, properties),
        "capability": capability,
    }


def fallback(accelerator: str) -> list[str]:
    """Return the settings by which torch computes on the CPU what a device has no kernel for."""
    settings = []
    for name in ("PYTORCH_ENABLE_{}_FALLBACK", "PYTORCH_{}_FALLBACK_OP"):
        variable = name.format(accelerator.upper())
        value = os.environ.get(variable, "")
        if value not in ("", "0"):
            settings.append(f"{variable}={value}")
    return settings


def device_id(device: torch.device) -> str | None:
    """Return the PCI device id in four hexadecimal digits; None before torch 2.9, and for CPUs."""
    if device.type == "cpu":
        return None
    number = getattr(backend(device).get_device_properties(device), "device_id", None)
    return f"{number:04x}" if isinstance(number, int) else None


def has_float64(device: torch.device) -> bool | None:
    """Return whether the device says that it computes in float64, None where it says nothing.

    IPEX before 2.1.30 names the property ``support_fp64``.
    """
    if kind(device) in ("cpu", "cuda"):
        return True
    properties = backend(device).get_device_properties(device)
    answer = getattr(properties, "has_fp64", getattr(properties, "support_fp64", None))
    return None if answer is None else bool(answer)


def alike(device: torch.device) -> list[int]:
    """Return the numbers of the devices of the same name as this one, itself first.

    Devices that differ can't be expected to work together: an integrated GPU beside a card, or a
    card that this torch has no kernels for. Where others are checked at the same time, they are
    not there for this one: in an exclusive mode each belongs to its own process.
    """
    module, first = backend(device), device.index or 0
    numbers = [first]
    if os.environ.get("SMOKE_ALONE") == "":
        return numbers
    model = module.get_device_name(first)
    for number in range(module.device_count()):
        if number != first and module.get_device_name(number) == model:
            numbers.append(number)
    return numbers


def _cpu_name() -> str:
    """Return the marketing name; platform.processor() of Windows has family and stepping only."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            import winreg

            place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if names := re.findall(r"^model name\s*: (.+)$", text, re.MULTILINE):
            return str(names[0])
    return platform.processor() or platform.machine() or "CPU"


@functools.cache
def sensors_of(device: torch.device) -> sensors.Sensors:
    """Return what reads the state of the device, the same for the whole process."""
    accelerator = kind(device)
    if accelerator not in ("cuda", "xpu"):
        return sensors.find(accelerator, None, None)
    uuid = getattr(backend(device).get_device_properties(device), "uuid", None)
    return sensors.find(accelerator, device_id(device), uuid)


def driver(accelerator: str, properties: object = None) -> str | None:
    """Return the version of the driver, None where it is unknown."""
    if accelerator == "cuda":
        return sensors.nvidia_driver()
    return getattr(properties, "driver_version", None)
