"""Device names and driver versions, as vendors write them."""

from __future__ import annotations

import pytest

from smoke.hardware import family, reaches


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Intel(R) Data Center GPU Max 1550", "pvc"),
        ("Intel(R) Data Center GPU Flex 170", "dg2"),
        ("Intel(R) Arc(TM) A770 Graphics", "dg2"),
        ("Intel(R) Arc(TM) Pro A60 Graphics", "dg2"),
        ("Intel(R) Arc(TM) B580 Graphics", "bmg"),
        ("Intel(R) Arc(TM) Pro B50 Graphics", "bmg"),
        ("Intel(R) Arc(TM) 140V GPU (16GB)", "lnl"),
        ("Intel(R) Arc(TM) 140T GPU (16GB)", "arl"),
        ("Intel(R) Arc(TM) B390 GPU", "ptl"),
        ("Intel(R) UHD Graphics 770", "integrated, before Arc"),
        ("Intel(R) Iris(R) Xe Graphics", "integrated, before Arc"),
        ("Intel(R) Arc(TM) Graphics", None),
        ("NVIDIA H200", None),
    ],
)
def test_the_family_of_a_name(name: str, found: str | None) -> None:
    assert family(name) == found


@pytest.mark.parametrize(
    ("found", "floor", "enough"),
    [
        ("580.65.06", ">=580.65.06", True),
        ("580.95.05", ">=580.65.06", True),
        ("570.211.01", ">=580.65.06", False),
        ("32.0.101.6129", ">=31.0.101.5122", True),
        ("31.0.101.4972", ">=31.0.101.5122", False),
        ("1.6.33578", ">=25.18.33578", True),
        ("1.6.33578+11", ">=1.6.33578", True),
        ("1.3.29735", ">=25.18.33578", False),
        ("1.3.29735", ">=1.6.33578", False),
        ("1.6.33578", ">=24.39", None),
    ],
)
def test_a_driver_reaches_its_floor_or_not(found: str, floor: str, enough: bool) -> None:
    assert reaches(found, floor) is enough
