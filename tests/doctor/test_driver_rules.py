"""The doctor's rules on drivers where a version cannot be compared, and in WSL."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from provision.core.findings import Level
from provision.host.model import Driver, Gpu, Host, Runtimes
from tests.doctor.cards import ARC, RTX

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from tests.doctor.conftest import Env


def linux(gpu: Gpu, runtime: str | None = None) -> Host:
    runtimes = Runtimes(level_zero="1.17", compute_runtime=runtime)
    return Host("linux-64", "6.8", gpus=(gpu,), runtimes=runtimes)


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ("", "the driver's version is not visible"),
        ("17013219", "17013219 is not a driver version of a known format"),
    ],
)
def test_a_driver_that_cannot_be_compared_is_a_note(
    env: Env, runtime: str, words: str
) -> None:
    env.torch("2.13.0+xpu")
    env.host = linux(ARC, runtime)
    assert env.codes() == []
    (note,) = (
        finding for finding in env.diagnose() if finding.code == "driver-unknown"
    )
    assert note.level is Level.NOTE
    assert words in note.cause
    assert "required >=25.18" in note.evidence


def test_an_old_driver_in_wsl_is_updated_in_windows(env: Env) -> None:
    env.torch("2.13.0", cuda="13.0")
    old = dataclasses.replace(RTX, driver=Driver("nvidia", "546.30"))
    env.host = dataclasses.replace(linux(old), surroundings=("wsl",))
    (found,) = (
        finding for finding in env.diagnose() if finding.code == "driver-too-old"
    )
    assert "Update NVIDIA's driver in Windows" in found.remedy


@pytest.mark.parametrize("capability", [None, "13.0"])
def test_a_gpu_newer_than_the_catalog_is_not_refused(
    env: Env, capability: str | None, devices: Devices
) -> None:
    known = devices.find("nvidia", "3300")
    assert known is not None
    env.torch("2.14.0", "triton==3.7.0; platform_system == 'Linux'", cuda="13.0")
    env.add("triton", "3.7.0")
    newer = dataclasses.replace(
        RTX,
        device_id="3300",
        family=known.family,
        supported=known.supported,
        compute_capability=capability,
    )
    env.host = linux(newer)
    assert env.diagnose() == ()


def test_what_is_known_to_be_wrong_with_this_driver_is_cited(env: Env) -> None:
    b60 = dataclasses.replace(ARC, device_id="e211", family="bmg", name="Arc Pro B60")
    env.torch("2.13.0+xpu")
    env.host = linux(b60, "26.05.37020.3")
    lines = [
        line
        for finding in env.diagnose()
        if finding.code == "known-wrong-numbers"
        for line in finding.evidence
    ]
    assert any(
        "lose elements" in line and "torch-xpu-ops#4396" in line for line in lines
    )
    env.host = linux(ARC, "24.39.31294.21")
    assert "lose elements" not in str(env.diagnose())


@pytest.mark.parametrize(("torch", "notes"), [("2.13.0", 1), ("2.14.0", 0)])
def test_what_is_known_to_be_wrong_on_any_nvidia_gpu_is_cited(
    env: Env, torch: str, notes: int
) -> None:
    env.torch(torch, cuda="13.0")
    env.host = linux(RTX)
    codes = [finding.code for finding in env.diagnose()]
    assert codes == ["known-wrong-numbers"] * notes
