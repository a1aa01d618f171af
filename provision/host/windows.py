"""GPUs from Windows' device tree: the present display devices and their driver versions."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from provision.catalog.devices import Devices
from provision.host.model import Driver, Gpu, Host, Runtimes
from provision.host.sysfs import catalogued

# The registry values that are read of a display device; a recorded tree holds the same. The older
# HardwareInformation.MemorySize has 32 bits, too few for 4 GiB and more.
VALUES = (
    "DriverDesc",
    "DriverVersion",
    "ProviderName",
    "HardwareInformation.qwMemorySize",
)
_DISPLAY = "{4d36e968-e325-11ce-bfc1-08002be10318}"  # GUID_DEVCLASS_DISPLAY
Tree = Mapping[str, Mapping[str, str | int]]
_INSTANCE = re.compile(
    r"PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4}).*\\(.+)", re.IGNORECASE
)

if sys.platform == "win32":
    import ctypes
    import winreg

    # CM_GETIDLIST_FILTER_CLASS, CM_GETIDLIST_FILTER_PRESENT.
    _CLASS_AND_PRESENT = 0x200 | 0x100

    def probe() -> dict[str, dict[str, str | int]]:
        """Return the present display devices: instance id to the values of its driver key."""
        # The registry alone also lists devices that were removed; cfgmgr32 knows the present ones.
        return {instance: _values(instance) for instance in _present()}

    def _present() -> list[str]:
        api = ctypes.windll.cfgmgr32
        length = ctypes.c_ulong(0)
        arguments = (_DISPLAY, _CLASS_AND_PRESENT)
        if api.CM_Get_Device_ID_List_SizeW(ctypes.byref(length), *arguments):
            return []
        buffer = ctypes.create_unicode_buffer(max(length.value, 1))
        if api.CM_Get_Device_ID_ListW(arguments[0], buffer, length, arguments[1]):
            return []
        # Not buffer.value, which ends at the first NUL: the list is separated by them.
        return [name for name in "".join(buffer).split("\0") if name]

    def _values(instance: str) -> dict[str, str | int]:
        # The device's key names the key of its driver, which has the values.
        system = r"SYSTEM\CurrentControlSet"
        try:
            with winreg.OpenKey(
                winreg.HKEY_LOCAL_MACHINE, rf"{system}\Enum\{instance}"
            ) as key:
                driver = winreg.QueryValueEx(key, "Driver")[0]
            path = rf"{system}\Control\Class\{driver}"
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
                values = {}
                for name in VALUES:
                    value = _value(key, name)
                    if value is not None:
                        values[name] = value
                return values
        except OSError:
            return {}  # a device without a driver has no driver key

    def _value(key: winreg.HKEYType, name: str) -> str | int | None:
        try:
            value = winreg.QueryValueEx(key, name)[0]
        except OSError:
            return None
        return value if isinstance(value, (str, int)) else None


def read_windows(
    devices_by_instance: Tree,
    devices: Devices,
    variables: Mapping[str, str],
    kernel: str,
) -> Host:
    """Return the host of a device tree, as :func:`probe` reads it; the kernel is of Windows."""
    system = Path(os.environ.get("SYSTEMROOT", "C:\\Windows")) / "System32"
    gpus = parse(devices_by_instance, devices)
    runtimes = Runtimes()
    # Intel's driver installs the Level Zero loader there; its version is not in its name.
    if (system / "ze_loader.dll").exists():
        runtimes = replace(runtimes, level_zero="")
    for gpu in gpus:
        if gpu.vendor == "nvidia" and gpu.driver:
            runtimes = replace(runtimes, cuda=gpu.driver.version)
    return Host(
        "win-64", kernel, gpus=tuple(gpus), runtimes=runtimes, variables=dict(variables)
    )


def parse(instances: Tree, devices: Devices) -> list[Gpu]:
    """Return the PCI display devices as GPUs; one on Microsoft's basic driver has no driver."""
    gpus = []
    for instance, values in instances.items():
        if match := _INSTANCE.fullmatch(instance):
            vendor = match[1].lower()
            gpu = catalogued(devices, vendor, match[2].lower(), instance)
            gpus.append(_completed(gpu, values))
    return sorted(gpus, key=lambda gpu: gpu.address)


def _completed(gpu: Gpu, values: Mapping[str, str | int]) -> Gpu:
    # One that the catalog lacks has no better name than its instance id.
    name = gpu.address if gpu.integrated is None else gpu.name
    memory = values.get("HardwareInformation.qwMemorySize")
    return replace(
        gpu,
        name=str(values.get("DriverDesc") or name),
        driver=_driver(gpu.vendor, values),
        memory_bytes=memory if isinstance(memory, int) else None,
    )


def _driver(vendor: str, values: Mapping[str, str | int]) -> Driver | None:
    version = str(values.get("DriverVersion") or "")
    provider = str(values.get("ProviderName", ""))
    if not version or provider.casefold() == "microsoft":
        return None
    if vendor == "nvidia":
        version = nvidia_version(version)
    return Driver(provider or vendor, version)


def nvidia_version(windows: str) -> str:
    """Return NVIDIA's own version for the one that Windows shows: 580.88 for 32.0.15.8088."""
    last = "".join(windows.split(".")[-2:])
    match = re.search(r"(\d{3})(\d{2})$", last)
    return f"{match[1]}.{match[2]}" if match else windows
