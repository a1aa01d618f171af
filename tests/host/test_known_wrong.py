"""Which machine is told which numbers are wrong: by torch, driver, family, system and device."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.catalog.devices import read_devices
from provision.host.known_wrong import known_wrong
from provision.host.model import Driver, Gpu, Host, Runtimes

CATALOG = Path(__file__).parents[2] / "envs" / "catalog"
DEVICES = read_devices(CATALOG)


def linux(release: str, device: str = "e20b", family: str = "bmg") -> Host:
    gpu = Gpu("intel", device, "Arc", "0", family=family)
    runtimes = Runtimes(compute_runtime=release)
    return Host("linux-64", "6.12", gpus=(gpu,), runtimes=runtimes)


def windows(driver: str, family: str = "bmg") -> Host:
    installed = Driver("Intel", driver)
    gpu = Gpu("intel", "e20b", "Arc", "0", family=family, driver=installed)
    return Host("win-64", "10.0.26100", gpus=(gpu,))


RELEASE_05 = linux("26.05.37020.3")
RELEASE_14 = linux("26.14.37833.4")
RELEASE_22 = linux("26.22.38646.4")
RELEASE_27 = linux("26.27.39122.14")
E223 = linux("26.27.39122.14", device="e223")
WINDOWS = windows("32.0.101.8531")
WINDOWS_DG2 = windows("32.0.101.8531", family="dg2")


@pytest.mark.parametrize(
    ("torch", "host", "words"),
    [
        ("2.13.0+xpu", RELEASE_05, "lose elements"),
        ("2.12.1+xpu", RELEASE_14, ""),
        ("2.12.1+xpu", RELEASE_05, "beyond the memory"),
        ("2.13.0+xpu", RELEASE_22, "topk"),
        ("2.12.1+xpu", E223, "not a number"),
        ("2.12.1+xpu", RELEASE_27, ""),
        ("2.14.1+xpu", WINDOWS, "lose elements"),
        ("2.14.1+xpu", WINDOWS_DG2, "index_add_"),
        ("2.6.0+xpu", RELEASE_22, "could not create an engine"),
    ],
)
def test_the_pairs_of_the_reports(torch: str, host: Host, words: str) -> None:
    lines = known_wrong(torch, "xpu", host, DEVICES)
    assert words in "\n".join(lines)
    if not words:
        assert lines == []


def test_a_driver_that_nobody_can_read_accuses_nothing_by_its_range() -> None:
    unreadable = linux("")
    for line in known_wrong("2.13.0+xpu", "xpu", unreadable, DEVICES):
        assert "lose elements" not in line


def test_a_row_of_nvidia_accuses_any_of_its_gpus_and_no_other() -> None:
    """A model that no catalog has has no family; a torch for another accelerator uses no such GPU."""
    driver = Driver("nvidia", "590.1")
    newer = Gpu("nvidia", "ffff", "NVIDIA Next", "0", driver=driver)
    h200 = Gpu("nvidia", "2335", "NVIDIA H200", "1", family="hopper")
    host = Host("linux-64", "6.12", gpus=(newer, h200, *RELEASE_14.gpus))
    first, second = known_wrong("2.13.0+cu130", "cuda", host, DEVICES)
    assert first.startswith("NVIDIA Next with ")
    assert second.startswith("NVIDIA H200 with ")
    for line in (first, second):
        assert "avg_pool2d with padding" in line
    assert known_wrong("2.14.0+cu126", "cuda", host, DEVICES) == []
    assert known_wrong("2.13.0+cpu", "cpu", host, DEVICES) == []
    of_intel = known_wrong("2.13.0+xpu", "xpu", host, DEVICES)
    assert of_intel
    for line in of_intel:
        assert line.startswith("Arc with ")
