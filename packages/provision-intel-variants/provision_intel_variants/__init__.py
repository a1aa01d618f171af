"""A provider of wheel variants (PEP 850, draft of 15 October 2026) for Intel GPUs.

It reads names of files and a few numbers, so it takes milliseconds: an installer asks it before it
knows what it will install. Whatever a machine hides is left out; nothing here raises.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

namespace = "intel"
# For a machine that is not this one. An empty family: it has no such GPU; a family alone: no driver.
FAMILY, DRIVER = "PROVISION_INTEL_FAMILY", "PROVISION_INTEL_DRIVER"
_VENDOR = "8086"
# Of the PCI bus: 03xx are display controllers, Data Center GPUs among them.
_DISPLAY = re.compile(r"0x03[0-9a-f]{4}")
_DRIVER = re.compile(r"libze_intel_gpu\.so\.1\.\d+\.(\d{5,}).*")
_LIBRARIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/lib64",
)


class Feature:
    """One feature with its values, the preferred one first."""

    __slots__ = ("multi_value", "name", "values")

    def __init__(self, name: str, values: list[str], *, multi_value: bool) -> None:
        """Take what PEP 850 asks of a feature."""
        self.name = name
        self.values = values
        self.multi_value = multi_value  # whether one wheel may name several of them


class Catalog:
    """What the package carries of Provision's catalog."""

    __slots__ = ("families", "integrated", "releases")

    def __init__(self) -> None:
        """Read it."""
        text = Path(__file__).with_name("catalog.json").read_text(encoding="utf-8")
        carried = json.loads(text)
        self.families: dict[str, str] = carried["families"]  # by PCI device id
        self.integrated: list[str] = carried["integrated"]  # in processors
        # First build and name of each release of compute-runtime, the newest first.
        self.releases: list[tuple[int, str]] = carried["releases"]


def get_supported_configs(root: Path = Path("/")) -> list[Feature]:
    """Return what this machine has; nothing without an Intel GPU."""
    catalog = Catalog()
    families = _families(catalog, root)
    return _features(families, _releases(catalog, root)) if families else []


def get_all_configs() -> list[Feature]:
    """Return every value that there is."""
    catalog = Catalog()
    families = sorted(set(catalog.families.values()))
    return _features(families, [name for _, name in catalog.releases])


def _features(families: list[str], releases: list[str]) -> list[Feature]:
    found = [
        Feature("family", families, multi_value=True),
        Feature("driver_lower_bound", releases, multi_value=False),
    ]
    return [feature for feature in found if feature.values]


def _families(catalog: Catalog, root: Path) -> list[str]:
    """Return the families of the GPUs, separate cards first."""
    stated = os.environ.get(FAMILY)
    if stated is not None:
        return [stated] if stated in catalog.families.values() else []
    ids = _of_windows() if sys.platform == "win32" else _of_sysfs(root)
    families = {catalog.families[i] for i in ids if i in catalog.families}
    return sorted(families, key=lambda name: (name in catalog.integrated, name))


def _of_sysfs(root: Path) -> list[str]:
    """Return the device ids of Linux's PCI bus."""
    ids = []
    for device in _entries(root / "sys/bus/pci/devices"):
        facts = [_text(device / name) for name in ("vendor", "class", "device")]
        if facts[0] == f"0x{_VENDOR}" and _DISPLAY.fullmatch(facts[1]):
            ids.append(facts[2].removeprefix("0x"))
    return ids


def _releases(catalog: Catalog, root: Path) -> list[str]:
    """Return the releases that the user-mode driver reaches, the newest first; none on Windows."""
    stated = os.environ.get(DRIVER)
    if stated is not None:
        names = [name for _, name in catalog.releases]
        return names[names.index(stated) :] if stated in names else []
    # The driver of this machine says nothing of another one, and Windows' has no release.
    if FAMILY in os.environ or sys.platform == "win32":
        return []
    names = [path.name for folder in _LIBRARIES for path in _entries(root / folder)]
    builds = [int(found[1]) for found in map(_DRIVER.fullmatch, names) if found]
    newest = max(builds, default=0)
    return [name for build, name in catalog.releases if build <= newest]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip().lower()
    except OSError:
        return ""


def _of_windows() -> list[str]:
    """Return the device ids of the display adapters that are present."""
    import ctypes  # noqa: PLC0415 - only here, and it takes time

    adapters = "{4d36e968-e325-11ce-bfc1-08002be10318}"  # GUID_DEVCLASS_DISPLAY
    present = 0x200 | 0x100  # CM_GETIDLIST_FILTER_CLASS and _PRESENT
    try:
        api = ctypes.windll.cfgmgr32  # type: ignore[attr-defined,unused-ignore]
        length = ctypes.c_ulong(0)
        api.CM_Get_Device_ID_List_SizeW(ctypes.byref(length), adapters, present)
        buffer = ctypes.create_unicode_buffer(max(length.value, 1))
        api.CM_Get_Device_ID_ListW(adapters, buffer, length, present)
    except (AttributeError, OSError):
        return []
    pattern = rf"PCI\\VEN_{_VENDOR}&DEV_([0-9A-F]{{4}})"
    return [found.lower() for found in re.findall(pattern, "".join(buffer), re.I)]
