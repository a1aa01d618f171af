"""Driver versions, as vendors write them."""

from __future__ import annotations

import pytest

from smoke.driver_version import reaches


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
