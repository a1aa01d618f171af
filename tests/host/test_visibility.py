"""Which GPUs the selector variables hide."""

from __future__ import annotations

import pytest

from provision.core.process import clean_environment
from provision.host.intel import in_level_zero_order, malformed, selects
from provision.host.model import Driver, Gpu, Host
from provision.host.vendors import hidden

UHD = Gpu(
    "intel", "4680", "UHD", "0000:00:02.0", integrated=True, driver=Driver("i915")
)
ARC = Gpu(
    "intel", "56a0", "A770", "0000:03:00.0", integrated=False, driver=Driver("i915")
)
MAX = Gpu(
    "intel",
    "0bd5",
    "Max",
    "0000:19:00.0",
    integrated=False,
    driver=Driver("i915"),
    tiles=2,
)
RTX = Gpu("nvidia", "2204", "3090", "0000:01:00.0", driver=Driver("nvidia"))
H100 = Gpu("nvidia", "2330", "H100", "0000:18:00.0", driver=Driver("nvidia"))


def host(*gpus: Gpu, inside: tuple[str, ...] = (), **variables: str) -> Host:
    return Host("linux-64", "6.8", surroundings=inside, gpus=gpus, variables=variables)


def test_discrete_is_numbered_before_integrated() -> None:
    assert in_level_zero_order(host(UHD, ARC)) == [ARC, UHD]


def test_bus_order_on_request() -> None:
    assert in_level_zero_order(host(UHD, ARC, ZE_ENABLE_PCI_ID_DEVICE_ORDER="1")) == [
        UHD,
        ARC,
    ]


def test_card_with_two_tiles_counts_twice_unless_composite() -> None:
    assert in_level_zero_order(host(MAX)) == [MAX, MAX]
    assert in_level_zero_order(host(MAX, ZE_FLAT_DEVICE_HIERARCHY="COMPOSITE")) == [MAX]


def test_selector_lets_these_numbers_through() -> None:
    for selector, visible in (
        ("level_zero:1,2", [1, 2]),
        ("level_zero:*", [0, 1, 2]),
        ("LEVEL_ZERO:GPU", [0, 1, 2]),
        ("*:gpu", [0, 1, 2]),
        ("opencl:gpu", []),
        ("opencl:cpu;level_zero:2", [2]),
        ("!level_zero:1", [0, 2]),
        ("level_zero:*;!level_zero:0", [1, 2]),
        ("level_zero:0.1", [0]),
        ("level_zero:gpu:2", []),
    ):
        assert [i for i in range(3) if selects(selector, i)] == visible, selector


def test_three_fields_are_malformed() -> None:
    assert malformed("level_zero:gpu:2") == "level_zero:gpu:2"
    assert malformed("level_zero:gpu;opencl:cpu") is None
    assert malformed("gpu") == "gpu"


def test_mask_comes_before_selector() -> None:
    found = hidden(
        host(UHD, ARC, ZE_AFFINITY_MASK="1", ONEAPI_DEVICE_SELECTOR="level_zero:0")
    )
    assert found == {ARC.address: "ZE_AFFINITY_MASK=1"}


def test_cuda_visible_devices() -> None:
    for value in ("", "-1", "1", "x,0"):
        assert list(hidden(host(RTX, CUDA_VISIBLE_DEVICES=value))) == [RTX.address]
    for value in ("0", "0,9", "GPU-8f6a1c"):
        assert not hidden(host(RTX, CUDA_VISIBLE_DEVICES=value))


def test_unlike_cards_are_numbered_by_speed_so_nothing_is_claimed() -> None:
    assert hidden(host(RTX, H100, CUDA_VISIBLE_DEVICES="0")) == {}
    by_bus = host(RTX, H100, CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert list(hidden(by_bus)) == [H100.address]


def test_container_without_devices() -> None:
    assert hidden(host(RTX, inside=("docker",), NVIDIA_VISIBLE_DEVICES="void"))
    assert not hidden(host(RTX, NVIDIA_VISIBLE_DEVICES="void")), "means nothing outside"


@pytest.mark.parametrize(
    ("gpus", "variables"),
    [
        ((RTX, H100), {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ((UHD, ARC), {"ZE_AFFINITY_MASK": "0", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}),
        (
            (MAX, ARC),
            {"ZE_AFFINITY_MASK": "2", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
        ),
    ],
)
def test_a_selector_means_the_same_in_a_clean_environment(
    gpus: tuple[Gpu, ...], variables: dict[str, str]
) -> None:
    before = hidden(host(*gpus, **variables))
    assert before != hidden(host(*gpus, **dict(list(variables.items())[:1])))
    assert hidden(host(*gpus, **clean_environment(variables))) == before
