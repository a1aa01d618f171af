"""What devices tell of themselves: sysfs as trees of files, NVML as a small library in C.

No GPU was at hand: files and functions are as the kernel's and NVIDIA's documents have them.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest

from smoke.device import sensors
from smoke.engine.check import Unmeasured

CARD = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
NVML = """
#include <string.h>
typedef void *device;
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 10 ? "Timeout" : "Not Supported"; }
int nvmlDeviceGetHandleByUUID(const char *uuid, device *found) {
    *found = (device)0x7f00deadbeefUL; return strcmp(uuid, "GPU-1234") ? 6 : 0; }
typedef struct { char legacy[16]; unsigned n[5]; char bus[32]; } pci;
static int mine(device d) { return d != (device)0x7f00deadbeefUL; }
int nvmlDeviceGetPciInfo_v3(device d, pci *p)
    { strcpy(p->bus, "00000000:01:00.0"); return mine(d); }
int nvmlDeviceGetTemperature(device d, int kind, unsigned *t) { *t = 71 + kind; return mine(d); }
int nvmlDeviceGetPowerUsage(device d, unsigned *mw) { *mw = 250500; return mine(d); }
int nvmlDeviceGetClockInfo(device d, int kind, unsigned *mhz)
    { *mhz = 1000 * kind; return mine(d); }
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *m)
    { *m = 0x44; return mine(d); }
int nvmlDeviceGetTotalEccErrors(device d, int type, int counter, unsigned long long *n)
    { *n = type ? 2 : 5000000000ULL; return counter || mine(d); }
int nvmlDeviceGetRemappedRows(device d, unsigned *a, unsigned *b, unsigned *c, unsigned *e)
    { *a = 1; *b = 2; *c = 0; *e = 1; return mine(d); }
int nvmlDeviceGetRetiredPagesPendingStatus(device d, unsigned *p) { *p = 1; return mine(d); }
typedef struct { device d; unsigned long long kind, data; unsigned a, b; } event;
static int left;
int nvmlEventSetCreate(void **set) { *set = &left; return 0; }
int nvmlDeviceRegisterEvents(device d, unsigned long long kinds, void *set)
    { left = 2; return kinds != 8 || set != &left || mine(d); }
int nvmlEventSetWait_v2(void *set, event *e, unsigned ms)
    { if (set != &left || ms || !left) return 10; e->d = 0; e->data = 79 - left--; return 0; }
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes files below a root folder, whose /sys the sensors read."""
    monkeypatch.setattr(sensors, "SYS", tmp_path / "sys")
    monkeypatch.setattr(sensors, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("flags : fpu")

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return tmp_path

    return write


# Intel --------------------------------------------------------------------------------------------

I915 = {
    f"{CARD}/hwmon/hwmon3/temp1_input": "61000",
    f"{CARD}/hwmon/hwmon3/energy1_input": "1000000",
    f"{CARD}/drm/card1/gt/gt0/rps_act_freq_mhz": "2400",
    f"{CARD}/drm/card1/gt/gt0/throttle_reason_status": "1",
    f"{CARD}/drm/card1/gt/gt0/throttle_reason_pl1": "1",
    f"{CARD}/drm/card1/gt/gt0/throttle_reason_thermal": "0",
}
XE = {
    f"{CARD}/hwmon/hwmon3/temp2_input": "61000",
    f"{CARD}/hwmon/hwmon3/temp3_input": "55000",
    f"{CARD}/hwmon/hwmon3/energy1_input": "1000000",
    f"{CARD}/tile0/gt0/freq0/act_freq": "2400",
    f"{CARD}/tile0/gt1/freq0/act_freq": "0",
    f"{CARD}/tile0/gt0/freq0/throttle/reason_pl1": "1",
    f"{CARD}/tile0/gt0/freq0/throttle/reason_thermal": "0",
    f"{CARD}/tile0/gt0/freq0/throttle/status": "1",
}


@pytest.mark.parametrize("files", [I915, XE], ids=["i915", "xe"])
def test_intel_tells_through_sysfs(
    tree: Any, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    card = tree(files) / CARD
    found = sensors.Sensors("xpu", card)
    assert found.read("temperature") == [61.0]
    assert found.read("clock") == [2400.0]
    assert found.throttled() == {"pl1"}
    clock = iter([10.0, 12.0])
    monkeypatch.setattr(sensors.time, "monotonic", lambda: next(clock))
    assert found.read("power") == [0.0]  # energy alone is no power yet
    tree({f"{CARD}/hwmon/hwmon3/energy1_input": "301000000"})
    assert found.read("power") == [pytest.approx(150.0)]
    with pytest.raises(Unmeasured, match="row remaps"):
        found.read("row remaps")


def test_what_may_not_be_read_is_named(tree: Any) -> None:
    card = tree({f"{CARD}/vendor": "0x8086"}) / CARD
    (card / "hwmon" / "hwmon0" / "temp1_input").mkdir(
        parents=True
    )  # no file: root reads all files
    found = sensors.Sensors("xpu", card)
    with pytest.raises(Unmeasured, match=r"Is a directory: .*temp1_input"):
        found.read("temperature")
    with pytest.raises(Unmeasured, match="rps_act_freq_mhz or tile"):
        found.read("clock")


def test_the_device_is_found_by_its_id(tree: Any) -> None:
    root = tree(I915 | {f"{CARD}/vendor": "0x8086", f"{CARD}/device": "0x56a0"})
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:01:00.0").symlink_to(root / CARD)
    card = sensors.find("xpu", "56a0", None)
    assert card.read("temperature") == [61.0]
    assert card.fixed
    with pytest.raises(Unmeasured, match="0 devices of sysfs are 0x8086:0xe20b"):
        sensors.find("xpu", "e20b", None).read("temperature")


def test_neither_a_laptop_nor_a_processor_has_cooling_for_its_gpu(tree: Any) -> None:
    root = tree(
        {
            f"{CARD}/vendor": "0x8086",
            "sys/devices/pci0000:00/0000:00:02.0/vendor": "0x8086",
        }
    )
    assert sensors.Sensors("xpu", root / CARD).fixed
    assert not sensors.Sensors(
        "xpu", root / "sys/devices/pci0000:00/0000:00:02.0"
    ).fixed
    assert not sensors.Sensors("cpu", root / "sys").fixed
    tree({"sys/class/power_supply/BAT0/type": "Battery"})
    assert not sensors.Sensors("xpu", root / CARD).fixed


def test_a_processor_tells_through_sysfs(tree: Any) -> None:
    folder = "bus/pci/drivers/k10temp/x/hwmon/hwmon2"
    counts = [
        f"sys/devices/system/cpu/cpu{n}/thermal_throttle/package_throttle_count"
        for n in "01"
    ]
    tree(
        {
            f"sys/{folder}/temp1_input": "71000",
            f"sys/{folder}/temp2_input": "69000",
            "sys/class/hwmon/hwmon9/temp1_input": "99000",  # of a disk
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "3600000",
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1200000",
            "sys/class/powercap/intel-rapl:0/energy_uj": "5000000",
            **dict.fromkeys(counts, "40"),
        }
    )
    found = sensors.find("cpu", None, None)
    assert (found.read("temperature"), found.read("clock")) == ([71.0], [3600.0])
    assert found.throttled() == set()  # of the 40 nobody knows when
    tree(dict.fromkeys(counts, "41"))
    assert found.throttled() == {"thermal"}
    assert found.throttled() == set()
    assert not found.fixed  # so heat is a warning at most
    with pytest.raises(Unmeasured):
        found.link()


# The link -----------------------------------------------------------------------------------------


def ends(folder: str, *, now: str, most: str, vendor: str = "0x8086") -> dict[str, str]:
    """Return the files of one end: speed and width, as ``16.0 x16``."""
    found = {f"{folder}/vendor": vendor}
    for which, text in (("current", now), ("max", most)):
        speed, width = text.split(" x")
        found |= {
            f"{folder}/{which}_link_speed": f"{speed} GT/s PCIe",
            f"{folder}/{which}_link_width": width,
        }
    return found


def test_the_limit_of_a_link_is_that_of_its_weaker_end(tree: Any) -> None:
    slot = ends(str(Path(CARD).parent), now="8.0 x8", most="8.0 x16")
    root = tree(slot | ends(CARD, now="8.0 x8", most="16.0 x8", vendor="0x10de"))
    card = sensors.Sensors("cuda", root / CARD, ctypes.c_void_p(1))
    assert card.link() == [3, 8, 3, 8]
    (root / "cpuinfo").write_text("flags : fpu hypervisor")
    with pytest.raises(Unmeasured, match="virtual machine"):
        card.link()


def test_an_arc_has_the_link_of_its_topmost_bridge(tree: Any) -> None:
    port = "sys/devices/pci0000:00/0000:00:01.0"
    bridge, inner = f"{port}/0000:01:00.0", f"{port}/0000:01:00.0/0000:02:01.0"
    gpu = f"{inner}/0000:03:00.0"
    files = ends(port, now="16.0 x16", most="32.0 x16") | ends(
        bridge, now="16.0 x16", most="16.0 x16"
    )
    for folder in (inner, gpu):  # what they tell is of no wire
        files |= ends(folder, now="2.5 x1", most="2.5 x1")
    assert sensors.Sensors("xpu", tree(files) / gpu).link() == [4, 16, 4, 16]


def test_a_link_that_cannot_be_understood_is_not_judged(tree: Any) -> None:
    card = tree({f"{CARD}/current_link_speed": "Unknown"}) / CARD
    with pytest.raises(Unmeasured, match="has a link of"):
        sensors.Sensors("cuda", card).link()


# NVIDIA -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A library with NVML's interface: a wrong argument of ours is an error code of its."""
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(NVML)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-w", "-o", folder / "nvml.so", folder / "nvml.c"],  # noqa: S607
        check=True,
    )
    return ctypes.CDLL(str(folder / "nvml.so"))


@pytest.mark.machine
def test_nvidia_tells_through_nvml(
    tree: Any, library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree({"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de"})
    monkeypatch.setattr(sensors, "nvml", lambda: library)
    found = sensors.find("cuda", None, "1234")
    assert found.read("temperature") == [71.0]
    assert found.read("power") == [250.5]
    assert found.read("clock") == [1000.0]  # of the multiprocessors: NVML_CLOCK_SM
    assert found.throttled() == {"power cap", "hardware thermal"}
    assert found.read("uncorrectable ECC errors") == [2.0]
    assert found.read("corrected ECC errors") == [5e9]
    assert found.read("row remaps") == [1.0, 2.0, 0.0, 1.0]
    assert found.read("page retirements") == [1.0]
    with pytest.raises(Unmeasured, match="No such file"):
        found.link()  # its folder in sysfs was found by NVML's address


@pytest.mark.machine
def test_xids_count_from_the_first_look_on(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "nvml", lambda: library)
    card = sensors.Sensors("cuda", None, ctypes.c_void_p(0x7F00DEADBEEF))
    assert card.xids() == [77, 78]
    assert card.xids() == []
    stranger = sensors.Sensors("cuda", None, ctypes.c_void_p(5))
    with pytest.raises(Unmeasured, match="nvmlDeviceRegisterEvents: Not Supported"):
        stranger.xids()


@pytest.mark.parametrize(("kind", "reason"), [("cpu", "coretemp"), ("mps", "macOS")])
def test_who_tells_no_temperature_is_named(tree: Any, kind: str, reason: str) -> None:
    tree({})
    with pytest.raises(Unmeasured, match=reason):
        sensors.find(kind, None, None).read("temperature")
