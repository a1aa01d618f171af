"""Probes and parsers one by one, on good input and on garbage."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.devices import read_devices
from provision.core.errors import SpecError
from provision.core.platforms import VENDORS
from provision.host import intel, nvidia, permissions, sysfs, virtualization, windows
from provision.host.model import (
    Driver,
    Gpu,
    Host,
    NvidiaCard,
    Runtimes,
    User,
    host_layers,
)
from provision.host.probe import read_host
from provision.host.root import Root
from provision.host.vendors import MODULES, hidden

if TYPE_CHECKING:
    from provision.catalog.devices import Devices

CATALOG = Path(__file__).parents[2] / "envs" / "catalog"


@pytest.fixture(scope="module")
def devices() -> Devices:
    return read_devices(CATALOG)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_listed_ids(devices: Devices) -> None:
    for device, family, supported in (
        ("56a0", "dg2", True),
        ("e20b", "bmg", True),
        ("0bd5", "pvc", True),
        ("3e92", "cfl", False),
    ):
        intel_device = devices.find("intel", device)
        assert intel_device is not None
        assert intel_device.family == family
        assert intel_device.supported == supported
    for device, family, capability in (
        ("2204", "ampere", "8.6"),
        ("20b2", "ampere", "8.0"),
        ("2b85", "blackwell", "12.0"),
    ):
        chip = devices.find("nvidia", device)
        assert chip is not None
        assert chip.family == family
        assert chip.compute_capability == capability


def test_unknown_ids_are_not_guessed(devices: Devices) -> None:
    assert devices.find("intel", "ffff") is None
    assert devices.find("nvidia", "0001") is None
    assert devices.find("nvidia", "") is None
    assert devices.find("amd", "744c") is None


def test_compute_runtime_builds(devices: Devices) -> None:
    assert devices.release_of(33578) == "25.18.33578"
    assert devices.release_of(33600) == "25.18.33600", (
        "a later build of the same release"
    )
    assert devices.release_of(1) == "0.1"


def test_cuda_floors(devices: Devices) -> None:
    assert devices.least_driver("13.0", "linux-64") == "580.65.06"
    assert devices.least_driver("12.8", "win-64") == "527.41"
    assert devices.least_driver("99.0", "linux-64") is None


def test_broken_catalog_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "devices.toml").write_text("[intel]\n")
    (tmp_path / "drivers.toml").write_text("")
    with pytest.raises(SpecError, match="device catalog") as caught:
        read_devices(tmp_path)
    assert "version control" in caught.value.remedy


def test_library_versions(devices: Devices) -> None:
    loaders = ["libze_loader.so.1", "libze_loader.so.1.9.4", "libze_loader.so.1.17.44"]
    assert intel.loader_version(loaders) == "1.17.44"
    assert intel.loader_version(loaders[:1]) == ""
    assert intel.loader_version([]) is None
    driver = "libze_intel_gpu.so.1.3.29735.20"
    assert intel.compute_runtime_version([driver], devices) == "24.22.29735"
    assert intel.compute_runtime_version(["libze_intel_gpu.so.1"], devices) == ""
    libraries = ["libcuda.so.1", "libcuda.so.580.9", "libcuda.so.580.95.05"]
    assert nvidia.cuda_version(libraries) == "580.95.05"
    assert nvidia.cuda_version(libraries[:1]) == ""
    assert nvidia.cuda_version([]) is None


def test_what_nvidia_shows_is_merged_by_address() -> None:
    gpu = Gpu(
        "nvidia",
        "2204",
        "NVIDIA GA102 (Ampere)",
        "0000:01:00.0",
        "ampere",
        supported=True,
    )
    card = NvidiaCard("0000:01:00.0", "NVIDIA GeForce RTX 3090", "580.95.05")
    beyond = NvidiaCard("0000:09:00.0", "NVIDIA GeForce RTX 4070", "581.1", None, "8.9")
    merged, alone = nvidia.merge([gpu], [card, beyond])
    assert merged.name == "NVIDIA GeForce RTX 3090"
    assert merged.driver is not None
    assert merged.driver.version == "580.95.05"
    assert alone.address == "0000:09:00.0"
    assert alone.supported


def test_bars() -> None:
    lines = "0x4000000000 0x43ffffffff 0x14220c\n0x0 0x0 0x0\n0x81000000 0x81ffffff 0x40200\n"
    assert sysfs.largest_bar(lines) == 16 * 2**30
    assert sysfs.largest_bar("what is this\n0x1\n") == 0


DMI = "sys/class/dmi/id"
SURROUNDINGS: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({}, ()),
    ({"proc/sys/kernel/osrelease": "5.15.1-microsoft-standard-WSL2"}, ("wsl",)),
    ({".dockerenv": ""}, ("docker",)),
    ({"run/.containerenv": ""}, ("podman",)),
    ({"proc/1/cgroup": "0::/kubepods.slice/x"}, ("kubernetes",)),
    ({"proc/cpuinfo": "flags\t: hypervisor lm", ".dockerenv": ""}, ("vm", "docker")),
    ({f"{DMI}/product_name": "Virtual Machine"}, ("vm",)),
    ({f"{DMI}/product_name": "Surface Laptop 7"}, ()),
]


def test_surroundings(tmp_path: Path) -> None:
    for number, (files, layers) in enumerate(SURROUNDINGS):
        root = tmp_path / str(number)
        for path, text in files.items():
            write(root, path, text)
        assert virtualization.surroundings(Root(root), {}) == layers


def status(mode: int, uid: int, gid: int) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


def test_rights() -> None:
    for mode, user, usable in (
        (0o660, User("a", 1000, (109,)), True),
        (0o660, User("a", 1000, (1000,)), False),
        (0o666, User("a", 1000, ()), True),
        (0o600, User("a", 0, ()), True),
        (0o060, User("owner", 77, (109,)), False),
        (0o640, User("a", 1000, (109,)), False),
    ):
        assert permissions.may_use(status(mode, 77, 109), user) is usable


def test_garbage_never_raises(tmp_path: Path, devices: Devices) -> None:
    """A tree of the right names with random bytes in every file."""
    dice = random.Random(6)
    kept = {"class": b"0x030000", "vendor": b"0x8086", "device": b"0x56a0"}
    for number in range(100):
        root = tmp_path / str(number)
        folder = root / f"sys/bus/pci/devices/0000:00:0{number % 8}.0"
        folder.mkdir(parents=True)
        for name in ("vendor", "device", "class", "resource"):
            content = dice.randbytes(dice.randrange(30))
            if dice.random() < 0.6:
                content = kept.get(name, content)
            (folder / name).write_bytes(content)
        write(root, "etc/group", "x" * dice.randrange(9) + ":\n:::\n::9:\n")
        write(root, "proc/1/cgroup", "\0")
        (folder / "driver").symlink_to("nowhere" if number % 2 else folder)
        for variable in ("ONEAPI_DEVICE_SELECTOR", "CUDA_VISIBLE_DEVICES"):
            value = dice.randbytes(9).decode("latin1")
            hidden(read_host(devices, root=root, environ={variable: value}))


def test_unreadable_and_looping_trees(tmp_path: Path, devices: Devices) -> None:
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / "0000:00:02.0").symlink_to(bus / "0000:00:02.0")
    assert read_host(devices, root=tmp_path, environ={}).gpus == ()
    assert read_host(devices, root=tmp_path / "absent", environ={}).gpus == ()


def test_windows_garbage(devices: Devices) -> None:
    odd = {"": {}, "PCI\\VEN_": {}, "PCI\\VEN_8086&DEV_56A0\\1": {"DriverVersion": 7}}
    gpus = windows.parse(odd, devices)
    assert [gpu.device_id for gpu in gpus] == ["56a0"]


def test_this_machine_is_read_without_starting_a_process(devices: Devices) -> None:
    """It is no ``machine`` test, so starting one or opening a connection fails."""
    assert read_host(devices).platform


def test_the_layers_that_an_upgrade_can_change(
    tmp_path: Path, devices: Devices
) -> None:
    bios = tmp_path / "sys" / "class" / "dmi" / "id" / "bios_version"
    bios.parent.mkdir(parents=True)
    bios.write_text("F12c\n")
    before = host_layers(read_host(devices, root=tmp_path, environ={}))
    bios.write_text("F13\n")
    after = host_layers(read_host(devices, root=tmp_path, environ={}))
    assert before["firmware"] == "F12c"
    assert after == before | {"firmware": "F13"}


def test_a_gpu_s_driver_and_the_runtimes_are_layers() -> None:
    gpu = Gpu(
        "nvidia",
        "2204",
        "RTX 3090",
        "0000:01:00.0",
        driver=Driver("nvidia", "580.65.06"),
    )
    host = Host("linux-64", "6.1", gpus=(gpu,), runtimes=Runtimes(cuda="580.65.06"))
    assert host_layers(host) == {
        "platform": "linux-64",
        "kernel": "6.1",
        "GPU 0000:01:00.0": "RTX 3090",
        "driver nvidia": "580.65.06",
        "CUDA driver library": "580.65.06",
    }


def test_each_vendor_with_a_kernel_driver_is_a_module() -> None:
    bare = Host("linux-64", "6.8")
    for name, module in MODULES.items():
        assert VENDORS[name].module
        assert module.hidden(bare) == {}
        assert callable(module.occupants)
