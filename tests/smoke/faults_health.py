"""Faults of the hardware itself, and healthy states that look like them; see `faults`.

NVML is played by an object that answers the calls as nvml.h documents them, sysfs by a folder: no
GPU was at hand.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.smoke.faults import fault, module
else:  # `faults` is a module of the tests, and at the top in the environment
    faults = sys.modules[__name__.removesuffix("_health")]
    fault, module = faults.fault, faults.module

NOT_SUPPORTED, TIMEOUT = 3, 10  # nvmlReturn_t
NONE: dict[str, Any] = {"only": ("health.load",)}


class Nvml:
    """NVML on a card of this state: function -> results of its last arguments, or an error code."""

    def __init__(self, xids: tuple[int, ...] = (), **state: Any) -> None:
        self.xids = list(xids)
        words = {NOT_SUPPORTED: b"Not Supported", TIMEOUT: b"Timeout"}
        self.nvmlErrorString = lambda code: words.get(code, b"Unknown Error")
        self.state = {
            "nvmlDeviceGetTemperature": [61],
            "nvmlDeviceGetPowerUsage": [180_000],
            "nvmlDeviceGetClockInfo": [1700],
            "nvmlDeviceGetCurrentClocksThrottleReasons": [0],
            "nvmlDeviceGetTotalEccErrors": [0],
            "nvmlDeviceGetRemappedRows": [0, 0, 0, 0],
            "nvmlEventSetCreate": [7],
            "nvmlDeviceRegisterEvents": [],
            **state,
        }

    def nvmlEventSetWait_v2(self, _events: Any, event: Any, _timeout: int) -> int:  # noqa: N802
        if not self.xids:
            return TIMEOUT
        event[2] = self.xids.pop(0)
        return 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in self.__dict__.get("state", {}):
            raise AttributeError(name)
        answer = self.state[name]

        def call(*arguments: Any) -> int:
            if isinstance(answer, int):
                return answer
            for target, value in zip(
                arguments[-len(answer) or len(arguments) :], answer, strict=True
            ):
                target._obj.value = value
            return 0

        return call


@contextmanager
def card(place: Path | None = None, **state: Any) -> Iterator[None]:
    """Let the device have NVML's sensors, or the folder of sysfs alone."""
    sensors = module("smoke.device.sensors")
    library = Nvml(**state)
    handle = None if place else ctypes.c_void_p(1)
    with patch.object(sensors, "nvml", lambda: library):
        found = sensors.Sensors("cuda", place, handle)
        devices = module("smoke.device.devices")
        with patch.object(devices, "sensors_of", lambda _device: found):
            yield


@contextmanager
def slot(**files: str) -> Iterator[Path]:
    """Make the part of sysfs of a card that has a slot, both PCI Express 4.0 x16."""
    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder, "pci0000:00", "0000:00:01.0")
        place = port / "0000:01:00.0"
        place.mkdir(parents=True)
        both = {
            "max_link_speed": "16.0 GT/s PCIe",
            "max_link_width": "16",
            "vendor": "0x8086",
        }
        here = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16"}
        for name, text in {**both, **here, "vendor": "0x10de", **files}.items():
            place.joinpath(name).write_text(text + "\n", encoding="ascii")
        for name, text in both.items():
            port.joinpath(name).write_text(text + "\n", encoding="ascii")
        with patch.object(module("smoke.device.sensors"), "CPUINFO", Path("/dev/null")):
            yield place


# The link -----------------------------------------------------------------------------------------


@fault("transfer.speed", "link-below-its-best", "pretend")
def half_of_the_lanes_have_no_contact() -> Iterator[None]:
    with slot(current_link_width="8") as place, card(place):
        yield


@fault("transfer.speed", "link-below-its-best", "pretend")
def the_link_stays_slow_under_load() -> Iterator[None]:
    with slot(current_link_speed="2.5 GT/s PCIe") as place, card(place):
        yield


@fault("none", "", "pretend", only=("transfer.speed",))
def an_idle_link_trains_up_under_load() -> Iterator[None]:
    sensors = module("smoke.device.sensors")
    read, speeds = sensors._link, iter(["2.5", "2.5", "8.0"])

    def train(folder: Path, which: str) -> Any:
        if which == "current":
            folder.joinpath("current_link_speed").write_text(
                next(speeds, "16.0") + " GT/s PCIe"
            )
        return read(folder, which)

    with slot() as place, card(place), patch.object(sensors, "_link", train):
        yield


@fault("none", "", "pretend", only=("transfer.speed",))
def a_virtual_machine_shows_half_of_a_link() -> Iterator[None]:
    with (
        slot(current_link_width="8") as place,
        tempfile.NamedTemporaryFile("w") as text,
    ):
        text.write("flags : fpu hypervisor\n")
        text.flush()
        with (
            card(place),
            patch.object(module("smoke.device.sensors"), "CPUINFO", Path(text.name)),
        ):
            yield


@fault("transfer.speed", "transfer-corrupts", "pretend")
def the_second_half_never_arrives() -> Iterator[None]:
    checks = module("smoke.checks.test_transfer")
    copy = checks.copy_speed

    def lose(target: Any, source: Any, device: Any) -> Any:
        speed = copy(target, source, device)
        target[len(target) // 2 :] = 0
        return speed

    with patch.object(checks, "copy_speed", lose):
        yield


# Speed and values ---------------------------------------------------------------------------------

B580 = {"Arc B580": {"float32": 1e6, "memory": 1e-6}}


@fault("health.speed", "slow", "pretend", expect={"peaks": B580})
def a_card_reaches_a_millionth_of_its_peak() -> Iterator[None]:
    yield


@fault(
    "none",
    "",
    "pretend",
    expect={"peaks": {"Arc B570": {"float32": 1e6}}},
    only=("health.speed",),
)
def another_card_has_the_peak() -> Iterator[None]:
    yield


@fault("health.speed", "wrong-numbers", "pretend")
def one_number_of_a_product_in_bfloat16_is_wrong() -> Iterator[None]:
    from pretend import spoiled

    def change(result: Any, *_args: Any) -> Any:
        if str(result.dtype) == "torch.bfloat16" and result.shape == (32, 32):
            result[-1, -1] += 8
        return result

    with spoiled("aten::mm", change):
        yield


@fault("health.speed", "wrong-numbers")
def one_number_of_a_product_is_wrong_on_the_cpu() -> Iterator[None]:
    product = module("smoke.checks.test_health").Product
    rate = product.rate

    def spoil(self: Any, seconds: float) -> float:
        self._wanted[3, 5] = 99  # as if the product had another number there
        return float(rate(self, seconds))

    with patch.object(product, "rate", spoil):
        yield


@fault("health.load", "values-drift", "pretend")
def a_hot_card_computes_otherwise() -> Iterator[None]:
    from pretend import spoiled

    calls = iter(range(10**9))

    def change(result: Any, *_args: Any) -> Any:
        if result.shape == (32, 32):
            result[0, 0] += next(calls) == 5
        return result

    with spoiled("aten::mm", change):
        yield


# Memory -------------------------------------------------------------------------------------------

WORDS = (2**14,)  # as many as the harness lets the check test


@fault("health.memory", "memory-corrupts", "pretend")
def one_bit_of_one_word_is_stuck() -> Iterator[None]:
    from pretend import spoiled

    def stick(_result: Any, words: Any, *_args: Any) -> Any:
        if words.shape == WORDS:
            words[777] |= 1 << 20
        return words

    with spoiled("aten::add_", stick):
        yield


@fault("health.memory", "memory-corrupts", "pretend")
def one_bit_of_one_word_loses_its_inverse() -> Iterator[None]:
    from pretend import spoiled

    def stick(_result: Any, words: Any, *_args: Any) -> Any:
        if words.shape == WORDS:
            words[-1] &= ~1
        return words

    with spoiled("aten::bitwise_not_", stick):
        yield


# What the driver tells ----------------------------------------------------------------------------


@fault("health.load", "throttled-by-heat", "pretend")
def the_hardware_throttles_for_heat() -> Iterator[None]:
    with card(nvmlDeviceGetCurrentClocksThrottleReasons=[0x40 | 0x08]):
        yield


@fault("none", "", "pretend", **NONE)
def a_card_at_its_power_cap() -> Iterator[None]:
    with card(nvmlDeviceGetCurrentClocksThrottleReasons=[0x04 | 0x20]):
        yield


@fault("none", "", "pretend", **NONE)
def a_geforce_without_ecc_in_a_container() -> Iterator[None]:
    unsupported = (
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceRegisterEvents",
        "nvmlDeviceGetPowerUsage",
    )
    with card(**dict.fromkeys(unsupported, NOT_SUPPORTED)):
        yield


@fault("health.load", "ecc-uncorrectable", "pretend")
def a_card_lost_bits_beyond_repair() -> Iterator[None]:
    with card(nvmlDeviceGetTotalEccErrors=[2]):
        yield


@fault("health.load", "row-remap-failed", "pretend")
def a_card_has_no_spare_row_left() -> Iterator[None]:
    with card(nvmlDeviceGetRemappedRows=[3, 8, 0, 1]):
        yield


@fault("health.load", "row-remap-pending", "pretend")
def a_row_waits_for_a_reset() -> Iterator[None]:
    with card(nvmlDeviceGetRemappedRows=[0, 1, 1, 0]):
        yield


@fault("health.load", "xid-reported", "pretend")
def a_gpu_fell_off_the_bus_for_a_moment() -> Iterator[None]:
    with card(xids=(79,)):
        yield


@fault("health.load", "xid-of-a-program", "pretend")
def somebody_ended_another_program() -> Iterator[None]:
    with card(xids=(45,)):
        yield


# Collectives at size ------------------------------------------------------------------------------


@fault("collective.sum", "wrong-numbers", children=True)
def a_large_sum_loses_its_tail() -> Iterator[None]:
    distributed = module("torch.distributed")
    all_reduce = distributed.all_reduce

    def lose(tensor: Any, *more: Any) -> None:
        before = tensor.clone()
        all_reduce(tensor, *more)
        tensor[2**20 :] = before[2**20 :]

    with patch.object(distributed, "all_reduce", lose):
        yield
