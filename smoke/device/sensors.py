"""What a device tells of its state without root: NVIDIA's through NVML, all else through sysfs.

``health.json`` names functions and files; what can't be read raises `Unmeasured`. Level Zero's
Sysman is not asked: it adds little that takes no more permission.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from pathlib import Path
from typing import Any

from smoke.engine.check import Unmeasured
from smoke.engine.files import read_table

SYS, CPUINFO = Path("/sys"), Path("/proc/cpuinfo")
TABLE = read_table(__file__, "health.json")


class Sensors:
    """The readings of one device, by its folder in sysfs and NVML's handle; ``why`` it has none."""

    def __init__(
        self, kind: str, folder: Path | None, handle: Any = None, why: str = ""
    ) -> None:
        self._kind = "cpu" if kind == "cpu" else "gpu"
        self._files = TABLE["sysfs"][self._kind]
        self._folder = folder
        self._handle = handle
        self._why = why
        self._counted: dict[str, tuple[float, float]] = {}
        self._events = ctypes.c_void_p()
        # Neither a laptop nor a GPU of the processor has a slot, or cooling, of its own.
        inside = folder is not None and folder.resolve().parent.name.startswith("pci")
        self.fixed = kind != "cpu" and not inside and not _has_battery()

    def read(self, name: str) -> list[float]:
        """Return what one function or file tells, in °C, W, MHz, or as numbers of events."""
        if self._handle is None:
            texts = self._texts(name).values()
            scale = self._files[name][0]
            value = max(map(float, texts)) * scale
            if name in ("power", "throttle"):
                value = self._growth(name, value)
            return [value]
        function, arguments, count, scale = TABLE["nvml"][name]
        results = [ctypes.c_ulonglong() for _ in range(count)]
        pointers = map(ctypes.byref, results)
        _ask(function, self._handle, *arguments, *pointers)
        return [result.value * scale for result in results]

    def throttled(self) -> set[str]:
        """Return the reasons why the clock is lower now than it could be."""
        reasons: set[str] = set()
        if self._handle is not None:
            mask = int(self.read("throttle")[0])
            for bit, word in TABLE["reasons"].items():
                if mask & int(bit):
                    reasons.add(word)
        elif self._kind == "cpu":
            if self.read("throttle")[0] > 0:
                reasons.add("thermal")
        else:
            for path, text in self._texts("throttle").items():
                if text == "1":
                    reasons.add(path.name.rpartition("reason_")[2])
        return reasons - {"status"}  # that there are some

    def link(self) -> list[int]:
        """Return generation and width of PCI Express, and both of what card and slot can do.

        An Arc card is a switch with the GPU behind it: its topmost bridge has the link that counts
        (https://github.com/Syllo/nvtop/pull/344). NVML is not asked: its maximum can be the card's.
        """
        if self._folder is None:
            raise Unmeasured(self._why or "only Linux tells the link")
        if "hypervisor" in CPUINFO.read_text(encoding="utf-8", errors="replace"):
            raise Unmeasured("a virtual machine shows another slot than the real one")
        card = self._folder.resolve()
        while not card.parent.parent.name.startswith("pci"):
            if _text(card.parent / "vendor") != _text(card / "vendor"):
                break
            card = card.parent
        now = _link(card, "current")
        most = map(min, _link(card, "max"), _link(card.parent, "max"))
        return [*now, *most]

    def xids(self) -> list[int]:
        """Return the Xid errors since the last call; the first one lets the driver collect them."""
        if self._events.value is None:
            events = ctypes.c_void_p()
            kind = ctypes.c_ulonglong(8)  # nvmlEventTypeXidCriticalError
            _ask("nvmlEventSetCreate", ctypes.byref(events))
            _ask("nvmlDeviceRegisterEvents", self._handle, kind, events)
            self._events = events
        xids = []
        event = (ctypes.c_ulonglong * 4)()  # nvmlEventData_t: device, kind, Xid, …
        with contextlib.suppress(Unmeasured):  # at last there is no other
            while _ask("nvmlEventSetWait_v2", self._events, event, 0):
                xids.append(event[2])
        return xids

    def _growth(self, name: str, value: float) -> float:
        """Return by how much a counter grew per second since it was last read, 0.0 at first."""
        now = time.monotonic()
        before, then = self._counted.get(name, (value, now - 1))
        self._counted[name] = value, now
        return (value - before) / (now - then)

    def _texts(self, name: str) -> dict[Path, str]:
        _scale, *patterns = self._files.get(name, [1.0])
        texts = {}
        if self._folder:
            for pattern in patterns:
                for path in sorted(self._folder.glob(pattern)):
                    texts[path] = _text(path)
        if not texts:
            words = " or ".join(patterns) or name
            raise Unmeasured(self._why or f"no {words} in {self._folder}")
        return texts


def find(kind: str, device_id: str | None, uuid: object) -> Sensors:
    """Return the sensors of one device; they collect the driver's errors from here on.

    Args:
        kind: ``cpu``, ``cuda``, ``xpu`` or ``mps``.
        device_id: The PCI device id by which sysfs has an Intel GPU.
        uuid: By which NVML has an NVIDIA GPU, without its ``GPU-``.
    """
    if kind == "cpu":
        return Sensors(kind, SYS)
    if kind == "mps":
        return Sensors(kind, None, why="macOS tells it to root only")
    try:
        if kind == "xpu":
            return Sensors(kind, _intel(device_id))
        handle, folder = _nvidia(uuid)
    except Unmeasured as reason:
        return Sensors(kind, None, why=str(reason))
    sensors = Sensors(kind, folder, handle)
    with contextlib.suppress(Unmeasured):
        sensors.xids()
    return sensors


def _nvidia(uuid: object) -> tuple[ctypes.c_void_p, Path | None]:
    """Return NVML's handle of a GPU, and its folder in sysfs, None where that has none."""
    handle = ctypes.c_void_p()
    place = ctypes.create_string_buffer(68)  # nvmlPciInfo_t
    _ask("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}".encode(), ctypes.byref(handle))
    _ask("nvmlDeviceGetPciInfo_v3", handle, place)
    address = place.raw[36:].rstrip(b"\0").decode()
    folder = SYS / "bus/pci/devices" / address.lower()[-12:]
    return handle, folder if folder.exists() else None


def nvml() -> ctypes.CDLL | None:
    """Return NVIDIA's management library, None where it does not start. It needs no CUDA context."""
    library = nvml_library()
    return None if library is None or library.nvmlInit_v2() else library


def nvml_library() -> ctypes.CDLL | None:
    """Return NVIDIA's management library, None without it: a driver that it does not fit is there."""
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def nvidia_driver() -> str | None:
    """Return the version of NVIDIA's driver, None where its library does not tell it."""
    library, text = nvml(), ctypes.create_string_buffer(96)  # the longest has 80
    if library is None or library.nvmlSystemGetDriverVersion(text, 96):
        return None
    return text.value.decode()


def _ask(function: str, *arguments: object) -> bool:
    library = nvml()
    if library is None:
        raise Unmeasured("NVIDIA's management library does not load")
    library.nvmlErrorString.restype = ctypes.c_char_p
    code = 13  # no such function
    if hasattr(library, function):
        code = getattr(library, function)(*arguments)
    if code:
        raise Unmeasured(f"{function}: {library.nvmlErrorString(code).decode()}")
    return True


def _intel(number: str | None) -> Path:
    """Return the folder of the one device of a PCI id: torch does not tell its address."""
    device = f"0x{number}" if number else "an id that this torch does not tell"
    folders = []
    for folder in SYS.glob("bus/pci/devices/*"):
        is_intel = _text(folder / "vendor") == "0x8086"
        if _text(folder / "device") == device and is_intel:
            folders.append(folder)
    if len(folders) == 1:
        return folders[0]
    raise Unmeasured(
        f"{len(folders)} devices of sysfs are 0x8086:{device}, it takes one"
    )


def _link(folder: Path, which: str) -> tuple[int, int]:
    speed = _text(folder / f"{which}_link_speed").partition(" ")[0]
    if speed not in TABLE["generations"]:
        raise Unmeasured(f"{folder.name} has a link of {speed} GT/s")
    width = int(_text(folder / f"{which}_link_width"))
    return TABLE["generations"].index(speed) + 1, width


def _has_battery() -> bool:
    if sys.platform != "win32":
        return any(SYS.glob("class/power_supply/BAT*"))
    status = (ctypes.c_ubyte * 12)()  # SYSTEM_POWER_STATUS; 128 means no battery
    is_known = ctypes.windll.kernel32.GetSystemPowerStatus(status)
    return bool(is_known) and status[1] != 128


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise Unmeasured(f"{error.strerror}: {path}") from error
