"""detect on drivers that cannot be compared, in WSL, and on GPUs newer than the catalog."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from provision.commands.detect import Detection, FitVerdict, detect
from provision.host import nvidia
from provision.host.model import Driver, Gpu, Host, NvidiaCard
from provision.host.windows import read_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.catalog.devices import Devices
    from provision.spec.parts import TargetHardware

    Recorded = Callable[..., Host]


def reason(found: Detection, target: str) -> str:
    return next("; ".join(fit.reasons) for fit in found.fits if fit.target == target)


def verdict_on(found: Detection, target: str) -> str:
    return next(fit.verdict.value for fit in found.fits if fit.target == target)


NEWER = r"PCI\VEN_10DE&DEV_3300&SUBSYS_00000000&REV_A1\4&1"


def test_nvidia_card_newer_than_the_catalog_fits_on_windows(
    devices: Devices, targets: list[TargetHardware]
) -> None:
    values = {"DriverDesc": "NVIDIA GeForce RTX 9090", "DriverVersion": "32.0.15.9144"}
    found = detect(targets, read_windows({NEWER: values}, devices, {}, "10.0.26100"))
    assert found.chosen == "cuda-windows"
    assert "driver 591.44" in reason(found, "cuda-windows")
    assert "unknown whether the wheels hold code for it" in reason(
        found, "cuda-windows"
    )


@pytest.mark.parametrize(("capability", "verdict"), [("13.0", "fits"), ("7.0", "no")])
def test_capability_of_a_newer_card_decides_where_it_is_known(
    capability: str, verdict: str, devices: Devices, targets: list[TargetHardware]
) -> None:
    known = devices.find("nvidia", "3300")
    assert known is not None
    gpu = Gpu(
        "nvidia", "3300", known.name, "0000:01:00.0", known.family, known.supported
    )
    card = NvidiaCard(
        gpu.address, "NVIDIA GeForce RTX 9090", "591.44", None, capability
    )
    found = detect(
        targets, Host("linux-64", "6.8", gpus=tuple(nvidia.merge([gpu], [card])))
    )
    assert verdict_on(found, "cuda-linux") == verdict
    assert "unknown" not in reason(found, "cuda-linux")


def test_old_driver_in_wsl_is_updated_in_windows(
    linux: Recorded, targets: list[TargetHardware]
) -> None:
    host = linux("wsl2-nvidia")
    gpu = dataclasses.replace(host.gpus[0], driver=Driver("nvidia", "546.30"))
    found = detect(targets, dataclasses.replace(host, gpus=(gpu,)))
    (fit,) = (fit for fit in found.fits if fit.target == "cuda-linux")
    assert fit.verdict is FitVerdict.BLOCKED
    assert "update NVIDIA's driver in Windows" in fit.remedy
