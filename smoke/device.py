"""The device under test: its torch.device, its backend module, and the facts that it reports."""

import os
import platform
import re
import sys
from typing import Any

import torch

from smoke.sensors import nvidia_driver


def number() -> int:
    """Return the number of the device that this process is to check, as torch counts."""
    return int(os.environ.get("SMOKE_DEVICE", "0"))  # the worker sets it, also for its children


def of(accelerator: str) -> torch.device:
    """Return the device of an accelerator that this process is to check."""
    return torch.device("cpu") if accelerator == "cpu" else torch.device(accelerator, number())


def count(accelerator: str) -> int:
    """Return the number of devices that this process sees."""
    return 1 if accelerator == "cpu" else int(backend(of(accelerator)).device_count())


def kind(device: torch.device) -> str:
    """Return the accelerator of a device: ``cpu``, ``cuda`` or ``xpu``."""
    return str(device.type)


def backend(device: torch.device) -> Any:  # noqa: ANN401 - torch.cuda, torch.xpu: modules
    """Return the module that drives the device, as ``torch.cuda``; None for the CPU."""
    return None if device.type == "cpu" else getattr(torch, device.type, None)


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
    return True


def facts(device: torch.device) -> dict[str, Any]:
    """Return the facts that the device reports: name, count, memory in bytes, driver version."""
    if device.type == "cpu":
        return {"name": _cpu_name(), "count": 1, "threads": torch.get_num_threads()}
    module = backend(device)
    properties = module.get_device_properties(device)
    return {
        "name": module.get_device_name(device),
        "count": module.device_count(),
        "memory": properties.total_memory,
        "driver": driver(kind(device), properties),
        "capability": _capability(device, module),
    }


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
    found = getattr(properties, "has_fp64", getattr(properties, "support_fp64", None))
    return None if found is None else bool(found)


def alike(device: torch.device) -> list[int]:
    """Return the numbers of the devices of the same name as this one, itself first.

    Devices that differ can't be expected to work together: an integrated GPU beside a card, or a
    card that this torch has no kernels for.
    """
    module, first = backend(device), device.index or 0
    name = module.get_device_name(first)
    others = (number for number in range(module.device_count()) if number != first)
    return [first, *(number for number in others if module.get_device_name(number) == name)]


def _capability(device: torch.device, module: Any) -> str | None:  # noqa: ANN401
    """Return the compute capability as ``sm_xy``, None for other devices than CUDA's."""
    if kind(device) != "cuda":
        return None
    return "sm_{}{}".format(*module.get_device_capability(device))


def _cpu_name() -> str:
    if sys.platform == "win32":
        return _cpu_name_in_registry() or platform.processor() or "CPU"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:  # noqa: PTH123
            found = re.search(r"^model name\s*: (.+)$", stream.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine() or "CPU"


def _cpu_name_in_registry() -> str | None:
    """Return the marketing name; platform.processor() has family and stepping only."""
    if sys.platform != "win32":
        return None
    import winreg

    place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip() or None
    except OSError:
        return None


def driver(accelerator: str, properties: object = None) -> str | None:
    """Return the version of the driver, None where it is unknown."""
    if accelerator == "cuda":
        return nvidia_driver()
    return getattr(properties, "driver_version", None)
