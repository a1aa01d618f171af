"""The driver tables of the catalog, and ids that it does not list."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from provision.catalog.devices import PEAKS, Devices, read_devices, read_peaks
from provision.core.errors import SpecError

CATALOG = Path(__file__).parents[2] / "envs" / "catalog"
# CUDA, its first driver for Linux and that for Windows, from the tables of
# https://docs.nvidia.com/cuda/archive/13.2.0/cuda-toolkit-release-notes/ and, for 13.3 and 13.4, the
# branches in those of 13.4 Update 1. From 13.0 on there is none for Windows.
FIRST_DRIVERS = """
11.0 450.51.05 451.48
11.1 455.23 456.38
11.2 460.27.03 460.82
11.3 465.19.01 465.89
11.4 470.42.01 471.11
11.5 495.29.05 496.04
11.6 510.39.01 511.23
11.7 515.43.04 516.01
11.8 520.61.05 520.06
12.0 525.60.13 527.41
12.1 530.30.02 531.14
12.2 535.54.03 536.25
12.3 545.23.06 545.84
12.4 550.54.14 551.61
12.5 555.42.02 555.85
12.6 560.28.03 560.76
12.8 570.26 570.65
12.9 575.51.03 576.02
13.0 580.65.06
13.1 590.44.01
13.2 595.45.04
13.3 610
13.4 615
"""
MORE_BITS_FIRST = ("float64", "float32", "float16")


@pytest.fixture(scope="module")
def devices() -> Devices:
    return read_devices(CATALOG)


def table(name: str) -> dict[str, Any]:
    return tomllib.loads((CATALOG / name).read_text(encoding="utf-8"))


def build(level_zero: str) -> int:
    return int(level_zero.partition("+")[0].split(".")[2])


def branch(driver: str) -> int:
    """Return the branch of a driver of NVIDIA's."""
    return int(driver.partition(".")[0])


def test_windows_numbers_and_builds_grow_together(devices: Devices) -> None:
    """Interpolation between two pairs rests on this."""
    numbers = [int(number.rpartition(".")[2]) for number in devices.intel_windows]
    builds = [build(shown) for shown in devices.intel_windows.values()]
    assert numbers == sorted(set(numbers))
    assert builds == sorted(builds)


def test_every_pair_has_its_source() -> None:
    pairs = table("drivers.toml")["intel_windows"]
    assert len(pairs) >= 12
    for pair in pairs.values():
        assert set(pair) == {"level_zero", "device", "source"}
        assert all(pair.values())


def test_each_branch_of_nvidias_driver_has_the_cuda_that_it_came_with(
    devices: Devices,
) -> None:
    rows = [line.split() for line in FIRST_DRIVERS.split("\n") if line]
    for cuda, linux, *windows in rows:
        for driver in (linux, *windows):
            assert devices.cuda_of(branch(driver)) == cuda
        assert devices.cuda_of(branch(linux) - 1) != cuda
    assert [cuda for _, cuda in devices.branches] == [row[0] for row in rows]


@pytest.mark.parametrize("device", ["3300", "3600", "22ff"])
def test_nvidia_chip_newer_than_the_catalog_is_not_refused(
    device: str, devices: Devices
) -> None:
    found = devices.find("nvidia", device)
    assert found is not None
    assert found.supported
    assert found.family is None
    assert found.compute_capability is None


def test_malformed_pair_is_an_error_of_the_catalog(tmp_path: Path) -> None:
    for name in ("devices.toml", "drivers.toml"):
        text = (CATALOG / name).read_text(encoding="utf-8")
        misspelt = text.replace("level_zero = ", "zero = ")
        (tmp_path / name).write_text(misspelt, encoding="utf-8")
    with pytest.raises(SpecError, match="device catalog"):
        read_devices(tmp_path)


def test_every_peak_has_a_source_and_a_device_of_its_own() -> None:
    names = []
    for row in table("peaks.toml")["peak"]:
        assert row["source"]
        assert row.keys() <= PEAKS | {"names", "source"}, "is not read"
        assert row["memory"] > 100
        names += row["names"]
    assert len(names) == len(set(names))
    assert len(names) == len(read_peaks(CATALOG))


def test_a_product_of_more_bits_is_never_the_faster_one() -> None:
    for peak in read_peaks(CATALOG).values():
        for value in peak.values():
            assert 0 < value < 10_000
        found = [peak[name] for name in MORE_BITS_FIRST if name in peak]
        assert found == sorted(found)
