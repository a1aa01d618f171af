"""What has to be repaired first: the cause comes before its consequences."""

from __future__ import annotations

from provision.host.compatibility import (
    hindrances,
    incompatibility,
    missing_runtimes,
    obstacles,
    old_libraries,
)
from provision.host.model import DeviceFile, Driver, Gpu, Host, Runtimes, System
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


def test_an_unknown_model_is_incompatible() -> None:
    unlisted = "device id ffff is not in the catalog"
    assert incompatibility(TARGET, Gpu("intel", "ffff", "", "0")) == unlisted
    assert "older than Maxwell" in incompatibility(
        TARGET, Gpu("nvidia", "ffff", "", "0")
    )
    assert incompatibility(TARGET, Gpu("intel", "", "", "0")) == ""


def test_libraries_of_the_least_versions_are_not_old() -> None:
    def judged(libc: str, libstdcxx: str, glibc: str | None = None) -> str:
        system = System(libc, libstdcxx)
        return old_libraries(Host("linux-64", "6.8", system=system), glibc)

    assert judged("glibc 2.28", "libstdc++.so.6.0.25") == ""
    assert judged("", "") == ""
    assert "glibc 2.27, the wheels" in judged("glibc 2.27", "libstdc++.so.6.0.25")
    assert "6.0.24, the wheels" in judged("glibc 2.28", "libstdc++.so.6.0.24")
    assert "need glibc 2.34" in judged("glibc 2.28", "libstdc++.so.6.0.25", "2.34")


def test_each_driver_hinders_for_its_own_reason() -> None:
    host = Host("linux-64", "6.8", runtimes=Runtimes(cuda="580.1", nvml="580.1"))
    found = {}
    for vendor, driver in (
        ("nvidia", Driver("nouveau")),
        ("nvidia", Driver("vfio-pci")),
        ("nvidia", Driver("nvidia")),  # its version is hidden
        ("nvidia", Driver("nvidia", "580.1")),
        ("nvidia", Driver("nvidia", "570.1")),
        ("intel", Driver("xe", "1.1")),  # beside a card of NVIDIA's
    ):
        gpu = Gpu(vendor, "2204", "", "0", driver=driver)
        names = dict.fromkeys(obstacle.name for obstacle in hindrances(gpu, host))
        found[driver.name, driver.version] = [*names]
    assert found == {
        ("nouveau", None): ["nouveau"],
        ("vfio-pci", None): ["foreign-driver"],
        ("nvidia", None): [],
        ("nvidia", "580.1"): [],
        ("nvidia", "570.1"): ["half-updated-driver"],
        ("xe", "1.1"): [],
    }


def test_wsl_is_no_container_and_has_its_libraries_from_windows() -> None:
    for layers, place in ((("wsl", "vm"), "machine"), (("vm", "docker"), "container")):
        host = Host("linux-64", "6.8", surroundings=layers)
        is_container = place == "container"
        assert any(missing_runtimes(arc(), host)) == is_container
        (absent,) = hindrances(arc(Driver("xe")), host)
        assert absent.name == "no-device-files"
        assert absent.reason.endswith(place)
        assert ("start the container" in absent.remedy) == is_container
