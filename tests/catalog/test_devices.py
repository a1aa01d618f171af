"""The driver tables of the catalog, and ids that it does not list."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from provision.catalog.devices import Devices, read_devices, read_peaks
from provision.core.errors import SpecError

CATALOG = Path(__file__).parents[2] / "envs" / "catalog"


@pytest.fixture(scope="module")
def devices() -> Devices:
    return read_devices(CATALOG)


def build(level_zero: str) -> int:
    return int(level_zero.partition("+")[0].split(".")[2])


def test_windows_numbers_and_builds_grow_together(devices: Devices) -> None:
    """Interpolation between two pairs rests on this."""
    numbers = [int(number.rpartition(".")[2]) for number in devices.intel_windows]
    builds = [build(shown) for shown in devices.intel_windows.values()]
    assert numbers == sorted(set(numbers))
    assert builds == sorted(builds)


def test_every_pair_has_its_source() -> None:
    pairs = tomllib.loads((CATALOG / "drivers.toml").read_text(encoding="utf-8"))[
        "intel_windows"
    ]
    assert len(pairs) >= 12
    for pair in pairs.values():
        assert set(pair) == {"level_zero", "device", "source"}
        assert all(pair.values())


@pytest.mark.parametrize("device", ["3300", "3600", "22ff"])
def test_nvidia_chip_newer_than_the_catalog_is_not_refused(
    device: str, devices: Devices
) -> None:
    found = devices.find("nvidia", device)
    assert found is not None
    assert (found.supported, found.family, found.compute_capability) == (
        True,
        None,
        None,
    )


def test_malformed_pair_is_an_error_of_the_catalog(tmp_path: Path) -> None:
    for name in ("devices.toml", "drivers.toml"):
        text = (CATALOG / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(
            text.replace("level_zero = ", "zero = "), encoding="utf-8"
        )
    with pytest.raises(SpecError, match="device catalog"):
        read_devices(tmp_path)


def test_every_peak_has_a_source_and_a_device_of_its_own(tmp_path: Path) -> None:
    rows = tomllib.loads((CATALOG / "peaks.toml").read_text(encoding="utf-8"))["peak"]
    names = [name for row in rows for name in row["names"]]
    assert len(names) == len(set(names)) == len(read_peaks(CATALOG))
    assert all(row["source"] and row["memory"] > 100 for row in rows)
    assert all(
        0 < value < 10_000
        for peak in read_peaks(CATALOG).values()
        for value in peak.values()
    )
    # A product of more bits is never the faster one.
    order = ("float64", "float32", "float16")
    for peak in read_peaks(CATALOG).values():
        found = [peak[name] for name in order if name in peak]
        assert found == sorted(found)
