"""GPUs from Windows' device tree: the present display devices and their driver versions."""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping
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
_INSTANCE = re.compile(
    r"PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4}).*\\(.+)", re.IGNORECASE
)

if sys.platform == "win32":
    import ctypes
    import winreg

    _CLASS_AND_PRESENT = (
        0x200 | 0x100
    )  # CM_GETIDLIST_FILTER_CLASS, CM_GETIDLIST_FILTER_PRESENT

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
                return {
                    name: value
                    for name in VALUES
                    if (value := _value(key, name)) is not None
                }
        except OSError:
            return {}  # a device without a driver has no driver key

    def _value(key: winreg.HKEYType, name: str) -> str | int | None:
        try:
            value = winreg.QueryValueEx(key, name)[0]
        except OSError:
            return None
        return value if isinstance(value, (str, int)) else None


def read_windows(
    found: Mapping[str, Mapping[str, str | int]],
    devices: Devices,
    variables: Mapping[str, str],
    kernel: str,
) -> Host:
    """Return the host of a device tree, as :func:`probe` reads it; the kernel is of Windows."""
    system = Path(os.environ.get("SYSTEMROOT", "C:\\Windows")) / "System32"
    gpus = parse(found, devices)
    # Intel's driver installs the Level Zero loader there; its version is not in its name.
    loader = (system / "ze_loader.dll").exists()
    cuda = next(
        (g.driver.version for g in gpus if g.vendor == "nvidia" and g.driver), None
    )
    runtimes = Runtimes(level_zero="" if loader else None, cuda=cuda)
    return Host(
        "win-64", kernel, gpus=tuple(gpus), runtimes=runtimes, variables=dict(variables)
    )


def parse(found: Mapping[str, Mapping[str, str | int]], devices: Devices) -> list[Gpu]:
    """Return the PCI display devices as GPUs; one on Microsoft's basic driver has no driver."""
    gpus = (_gpu(instance, values, devices) for instance, values in found.items())
    return sorted((gpu for gpu in gpus if gpu is not None), key=lambda gpu: gpu.address)


def _gpu(
    instance: str, values: Mapping[str, str | int], devices: Devices
) -> Gpu | None:
    match = _INSTANCE.fullmatch(instance)
    if match is None:
        return None
    gpu = catalogued(devices, match[1].lower(), match[2].lower(), instance)
    memory = values.get("HardwareInformation.qwMemorySize")
    size = memory if isinstance(memory, int) else None
    name = str(
        values.get("DriverDesc") or (instance if gpu.integrated is None else gpu.name)
    )
    driver = _driver(gpu.vendor, values)
    return dataclasses.replace(gpu, name=name, driver=driver, memory_bytes=size)


def _driver(vendor: str, values: Mapping[str, str | int]) -> Driver | None:
    version, provider = values.get("DriverVersion"), str(values.get("ProviderName", ""))
    if not version or provider.casefold() == "microsoft":
        return None
    plain = str(version)
    return Driver(
        provider or vendor, nvidia_version(plain) if vendor == "nvidia" else plain
    )


def nvidia_version(windows: str) -> str:
    """Return NVIDIA's own version for the one that Windows shows: 580.88 for 32.0.15.8088."""
    digits = "".join(windows.split(".")[-2:])[-5:]
    return f"{digits[:3]}.{digits[3:]}" if re.fullmatch(r"\d{5}", digits) else windows
