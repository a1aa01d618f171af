"""Names and ids of devices, as drivers report them, against the catalog's device list."""

from __future__ import annotations

import pytest

from provision.catalog.devices import read_devices
from smoke.device.intel_device import families
from tests.small import CATALOG

KNOWN = read_devices(CATALOG).intel_families()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Intel(R) Data Center GPU Max 1550", {"pvc"}),
        ("Intel(R) Data Center GPU Flex 170", {"dg2"}),
        ("Intel(R) Arc(TM) A770 Graphics", {"dg2"}),
        ("Intel(R) Arc(TM) A310 Graphics", {"dg2"}),
        ("Intel(R) Arc(TM) Pro A50 Graphics", {"dg2"}),
        ("Intel(R) Arc(TM) Pro A60 Graphics", {"dg2"}),
        ("Intel(R) Arc(TM) B580 Graphics", {"bmg"}),
        ("Intel(R) Arc(TM) Pro B50 Graphics", {"bmg"}),
        ("Intel(R) Arc(TM) 140V GPU (16GB)", {"lnl"}),
        ("Intel(R) Arc(TM) 140T GPU (16GB)", {"arl"}),
        ("Intel(R) Arc(TM) B390 GPU", {"ptl"}),
        ("Intel(R) UHD Graphics 770", {"adl"}),
        ("Intel(R) Iris(R) Xe Graphics", {"adl", "dg1", "tgl"}),
        ("Intel(R) Arc(TM) Graphics", {"arl", "lnl", "mtl"}),
        ("Intel(R) Graphics [0x7d55]", {"mtl"}),
        ("Intel(R) Graphics [0xB080]", {"ptl"}),
        ("Intel(R) Graphics", set()),
        ("Intel(R) Arc(TM) Z999 Graphics", set()),
        ("NVIDIA H200", set()),
    ],
)
def test_the_families_of_a_name(name: str, found: set[str]) -> None:
    assert families(KNOWN, name) == found


def test_the_device_id_decides_where_the_name_does_not() -> None:
    assert families(KNOWN, "Intel(R) Arc(TM) Graphics", "7d51") == {"arl"}
    assert families(KNOWN, "Intel(R) Graphics", "e20b") == {"bmg"}


def test_the_name_decides_where_the_catalog_does_not_know_the_id() -> None:
    assert families(KNOWN, "Intel(R) Arc(TM) A770 Graphics", "ffff") == {"dg2"}
