"""What has to be repaired first: the cause comes before its consequences."""

from __future__ import annotations

from provision.host.compatibility import incompatibility, obstacles
from provision.host.model import DeviceFile, Driver, Gpu, Host
from provision.spec.parts import TargetHardware

TARGET = TargetHardware(
    "arc-linux", "xpu", "linux-64", families=("dg2",), driver=">=24.39"
)
ABSENT = DeviceFile("/dev/dri/renderD128", present=False, usable=False)


def arc(driver: Driver | None = None, family: str = "dg2") -> Gpu:
    return Gpu(
        "intel",
        "56a0",
        "A770",
        "0000:03:00.0",
        family,
        True,
        driver=driver,
        nodes=(ABSENT,),
    )


def test_obstacles_come_in_the_order_of_their_repair() -> None:
    variable = "ZE_AFFINITY_MASK=1"
    found = list(obstacles(TARGET, arc(), Host("linux-64", "6.8"), variable))
    order = ("no driver", "renderD128", "libze_intel_gpu", "libze_loader", variable)
    for word, obstacle in zip(order, found, strict=True):
        assert word in obstacle.reason
    assert found[-1].remedy == "unset ZE_AFFINITY_MASK"


def test_another_family_is_incompatible() -> None:
    assert incompatibility(TARGET, arc()) == ""
    assert "pvc" in incompatibility(TARGET, arc(family="pvc"))
