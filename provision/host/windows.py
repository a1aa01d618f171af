"""GPUs from Windows' device tree: the present display devices and their driver versions."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from provision.host.model import Driver, Gpu
from provision.host.sysfs import VENDORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provision.catalog.devices import Devices

# The values of a display device that are worth reading; a recorded tree holds the same.
VALUES = ("DriverDesc", "DriverVersion", "ProviderName", "HardwareInformation.qwMemorySize")
_DISPLAY = "{4d36e968-e325-11ce-bfc1-08002be10318}"  # GUID_DEVCLASS_DISPLAY
_INSTANCE = re.compile(r"PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4}).*\\(.+)", re.IGNORECASE)

if sys.platform == "win32":
    import ctypes
    import winreg

    _CLASS_AND_PRESENT = 0x200 | 0x100  # CM_GETIDLIST_FILTER_CLASS, CM_GETIDLIST_FILTER_PRESENT

    def probe() -> dict[str, dict[str, str | int]]:
        """Return the present display devices: device instance id to the values of its driver key.

        The registry alone would also list cards that were taken out; cfgmgr32 knows the present.
        """
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
        return [name for name in "".join(buffer).split("\0") if name]

    def _values(instance: str) -> dict[str, str | int]:
        system = r"SYSTEM\CurrentControlSet"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, rf"{system}\Enum\{instance}") as key:
                driver = winreg.QueryValueEx(key, "Driver")[0]
            with winreg.OpenKey(
                winreg.HKEY_LOCAL_MACHINE, rf"{system}\Control\Class\{driver}"
            ) as key:
                return {name: value for name in VALUES if (value := _value(key, name)) is not None}
        except OSError:
            return {}

    def _value(key: winreg.HKEYType, name: str) -> str | int | None:
        try:
            value = winreg.QueryValueEx(key, name)[0]
        except OSError:
            return None
        return value if isinstance(value, (str, int)) else None

else:

    def probe() -> dict[str, dict[str, str | int]]:
        """Return nothing: this is not Windows."""
        return {}


def parse(found: Mapping[str, Mapping[str, str | int]], devices: Devices) -> list[Gpu]:
    """Return the device tree's display devices as GPUs; what is no PCI device is left out.

    A device without a driver key runs on no driver at all, or on Microsoft's basic one.
    """
    gpus = (_gpu(instance, values, devices) for instance, values in found.items())
    return sorted((gpu for gpu in gpus if gpu is not None), key=lambda gpu: gpu.address)


def _gpu(instance: str, values: Mapping[str, str | int], devices: Devices) -> Gpu | None:
    match = _INSTANCE.fullmatch(instance)
    if match is None:
        return None
    vendor, device_id = VENDORS.get(match[1].lower(), "other"), match[2].lower()
    known = devices.find(vendor, device_id)
    memory = values.get("HardwareInformation.qwMemorySize")
    return Gpu(
        vendor=vendor,
        device_id=device_id,
        name=str(values.get("DriverDesc") or (known.name if known else instance)),
        address=instance,
        family=known.family if known else None,
        supported=known.supported if known else False,
        integrated=known.integrated if known else None,
        compute_capability=known.compute_capability if known else None,
        driver=_driver(vendor, values),
        memory_bytes=memory if isinstance(memory, int) else None,
        tiles=known.tiles if known else 1,
    )


def _driver(vendor: str, values: Mapping[str, str | int]) -> Driver | None:
    version, provider = values.get("DriverVersion"), str(values.get("ProviderName", ""))
    if not version or provider.casefold() == "microsoft":
        return None
    plain = str(version)
    return Driver(provider or vendor, nvidia_version(plain) if vendor == "nvidia" else plain)


def nvidia_version(windows: str) -> str:
    """Return NVIDIA's own number for the version that Windows shows: 32.0.15.8088 is 580.88."""
    digits = "".join(windows.split(".")[-2:])[-5:]
    return f"{digits[:3]}.{digits[3:]}" if re.fullmatch(r"\d{5}", digits) else windows
