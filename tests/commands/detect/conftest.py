"""Recorded machines: `machines.toml` written as trees, and the targets to match with them."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.catalog.devices import read_devices
from provision.host.model import User
from provision.host.probe import read_host
from provision.host.windows import read_windows
from provision.spec.parts import TargetHardware

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.catalog.devices import Devices
    from provision.host.model import Host

HERE = Path(__file__).parent
MACHINES = tomllib.loads((HERE / "machines.toml").read_text(encoding="utf-8"))
STRANGER = 12345  # a user who owns nothing of the tree

ARC = ("dg2", "bmg", "mtl", "arl", "lnl", "ptl")
TARGETS = [
    TargetHardware("cpu-linux", "cpu", "linux-64"),
    TargetHardware("cpu-windows", "cpu", "win-64"),
    TargetHardware(
        "cuda-linux",
        "cuda",
        "linux-64",
        driver=">=580.65.06",
        compute_capability=">=7.5",
    ),
    TargetHardware(
        "cuda-windows", "cuda", "win-64", driver=">=528.33", compute_capability=">=7.5"
    ),
    TargetHardware("arc-linux", "xpu", "linux-64", families=ARC, driver=">=24.52"),
    TargetHardware(
        "arc-windows", "xpu", "win-64", families=ARC, driver=">=32.0.101.5762"
    ),
    TargetHardware("max-linux", "xpu", "linux-64", families=("pvc",), driver=">=24.39"),
    TargetHardware("ipex-llm-linux", "xpu", "linux-64", "legacy", families=("dg2",)),
]


@pytest.fixture(scope="session")
def devices() -> Devices:
    return read_devices(Path(__file__).parents[3] / "envs" / "catalog")


@pytest.fixture(scope="session")
def targets() -> list[TargetHardware]:
    return TARGETS


@pytest.fixture
def linux(tmp_path: Path, devices: Devices) -> Callable[..., Host]:
    """Return the host that a recorded Linux machine makes, with some variables set."""

    def build(name: str, **variables: str) -> Host:
        machine = MACHINES[name]
        root = tmp_path / name
        _materialise(root, machine)
        gids = () if machine.get("closed") else (os.getgid(),)
        user = User("someone", STRANGER, gids)
        return read_host(devices, root=root, environ=variables, user=user)

    return build


@pytest.fixture
def windows(devices: Devices) -> Callable[..., Host]:
    """Return the host that a recorded Windows device tree makes."""

    def build(name: str, **variables: str) -> Host:
        return read_windows(MACHINES["windows"][name], devices, variables, "10.0.26100")

    return build


def _materialise(root: Path, machine: dict[str, Any]) -> None:
    write(root / "proc/sys/kernel/osrelease", "6.8.0-48-generic")
    write(root / "etc/group", f"render:x:{os.getgid()}:\n")
    for name in machine.get("libraries", ()):
        write(root / "usr/lib/x86_64-linux-gnu" / name, "")
    for path, text in machine.get("files", {}).items():
        write(root / path, text)
    for gpu in machine.get("gpu", ()):
        for number in range(gpu.get("copies", 1)):
            made = dict(gpu)
            for name, value in gpu.items():
                if isinstance(value, str):
                    made[name] = value.format(n=number)
            make_gpu(root, made, nodes=not machine.get("no_nodes"))


def make_gpu(root: Path, gpu: dict[str, Any], *, nodes: bool) -> None:
    folder = root / "sys/devices" / gpu["at"]
    vendor, device = gpu["id"].split(":")
    write(folder / "vendor", f"0x{vendor}\n")
    write(folder / "device", f"0x{device}\n")
    write(folder / "class", gpu["class"] + "\n")
    if size := gpu.get("bar_mib"):
        last = 0x4000000000 + size * 2**20 - 1
        write(
            folder / "resource",
            f"0x4000000000 0x{last:016x} 0x000000000014220c\n0x0 0x0 0x0\n",
        )
    if text := gpu.get("survivability"):
        write(folder / "survivability_mode", text + "\n", mode=0o400)
    _driver(root, folder, gpu)
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    (bus / folder.name).symlink_to(folder)
    if render := gpu.get("render"):
        (folder / "drm" / render).mkdir(parents=True)
        if nodes:
            write(root / "dev/dri" / render, "", mode=0o660)


def _driver(root: Path, folder: Path, gpu: dict[str, Any]) -> None:
    name = gpu.get("driver")
    if not name:
        return
    driver = root / "sys/bus/pci/drivers" / name
    driver.mkdir(parents=True, exist_ok=True)
    (folder / "driver").symlink_to(driver)
    if version := gpu.get("driver_version"):
        write(root / f"sys/module/{name}/version", version + "\n")
    if name == "nvidia":
        for node in gpu.get("device_files", ("nvidiactl", "nvidia0")):
            write(root / "dev" / node, "", mode=0o666)
    if model := gpu.get("model"):
        write(
            root / f"proc/driver/nvidia/gpus/{folder.name}/information",
            f"Model: \t {model}\n",
        )


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
