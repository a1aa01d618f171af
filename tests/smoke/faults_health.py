"""Faults of the hardware itself, and healthy states that look like them; see `faults`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from unittest.mock import patch

# `faults` is a module of the tests, and at the top in the environment
faults = sys.modules[__name__.removesuffix("_health")]
fault, module = faults.fault, faults.module

# Generation and width of PCI Express, and what both ends can do.
SOUND_LINK = [4, 16, 4, 16]
ECC, REMAPPED = "uncorrectable ECC errors", "row remaps"
RETIRED = "page retirements"  # of cards before Ampere


class Card:
    """The sensors of a healthy card in a slot, but for what a fault changes."""

    fixed = True

    def __init__(self, **changes) -> None:
        self._links = changes.pop("links", [SOUND_LINK])
        self._throttled = changes.pop("throttled", set())
        self._xids = changes.pop("xids", [])
        self._readings = {
            "temperature": [61.0],
            "power": [180.0],
            "clock": [1700.0],
            ECC: [0.0],
            "corrected ECC errors": [0.0],
            REMAPPED: [0.0, 0.0, 0.0, 0.0],
            RETIRED: [0.0],
            **changes.pop("readings", {}),
        }

    def read(self, name: str):
        if self._readings[name] is None:
            raise module("smoke.engine.check").Unmeasured("Not Supported")
        return self._readings[name]

    def throttled(self):
        return self._throttled

    def xids(self):
        return self._xids

    def link(self):
        """Return one reading after the other, the last one for ever."""
        return self._links.pop(0) if len(self._links) > 1 else self._links[0]


@contextmanager
def card(**changes):
    """Let the device have the sensors of this card."""
    devices = module("smoke.device.devices")
    sensors = Card(**changes)
    with patch.object(devices, "sensors_of", lambda _device: sensors):
        yield


# The link -----------------------------------------------------------------------------------------


@fault("transfer.speed", "link-below-its-best", "pretend")
def half_of_the_lanes_have_no_contact():
    with card(links=[[4, 8, 4, 16]]):
        yield


@fault("transfer.speed", "", "pretend")
def an_idle_link_trains_up_under_load():
    with card(links=[[1, 16, 4, 16], [3, 16, 4, 16], SOUND_LINK]):
        yield


@fault("transfer.speed", "transfer-corrupts", "pretend")
def the_second_half_never_arrives():
    checks = module("smoke.checks.test_transfer")
    copy = checks.copy_speed

    def lose(target, source, device):
        speed = copy(target, source, device)
        target[len(target) // 2 :] = 0
        return speed

    with patch.object(checks, "copy_speed", lose):
        yield


# Speed and values ---------------------------------------------------------------------------------

B580 = {"Arc B580": {"float32": 1e6, "memory": 1e6}}


@fault("health.bandwidth", "slow", "pretend", expect={"peaks": B580})
def memory_reaches_a_millionth_of_its_peak():
    yield


@fault("health.speed", "slow", "pretend", expect={"peaks": B580})
def a_card_reaches_a_millionth_of_its_peak():
    yield


@fault("health.speed", "wrong-numbers", "pretend")
def one_number_of_a_product_in_bfloat16_is_wrong():
    from pretend import spoiled

    def change(result, *_args):
        if str(result.dtype) == "torch.bfloat16" and result.shape == (32, 32):
            result[-1, -1] += 8
        return result

    with spoiled("aten::mm", change):
        yield


@fault("health.load", "values-drift", "pretend")
def a_hot_card_computes_otherwise():
    from pretend import spoiled

    calls = iter(range(10**9))

    def change(result, *_args):
        if result.shape == (32, 32):
            result[0, 0] += next(calls) == 5
        return result

    with spoiled("aten::mm", change):
        yield


# Memory -------------------------------------------------------------------------------------------

WORDS = (2**14,)  # as many as the harness lets the check test


@fault("health.memory", "memory-corrupts", "pretend")
def one_bit_of_one_word_is_stuck():
    from pretend import spoiled

    def stick(_result, words, *_args):
        if words.shape == WORDS:
            words[777] |= 1 << 20
        return words

    with spoiled("aten::add_", stick):
        yield


# What the driver tells ----------------------------------------------------------------------------


@fault("health.load", "throttled-by-heat", "pretend")
def the_hardware_throttles_for_heat():
    with card(throttled={"hardware thermal", "hardware slowdown"}):
        yield


@fault("health.load", "", "pretend")
def a_card_at_its_power_cap():
    with card(throttled={"power cap", "software thermal"}):
        yield


@fault("health.errors", "", "pretend")
def a_geforce_without_ecc_in_a_container():
    with card(readings=dict.fromkeys((ECC, REMAPPED, RETIRED))):
        yield


@fault("health.errors", "ecc-uncorrectable", "pretend")
def a_card_lost_bits_beyond_repair():
    with card(readings={ECC: [2.0]}):
        yield


@fault("health.errors", "row-remap-failed", "pretend")
def a_card_has_no_spare_row_left():
    with card(readings={REMAPPED: [3.0, 8.0, 0.0, 1.0]}):
        yield


@fault("health.errors", "row-remap-pending", "pretend")
def a_row_waits_for_a_reset():
    with card(readings={REMAPPED: [0.0, 1.0, 1.0, 0.0]}):
        yield


@fault("health.errors", "row-remap-pending", "pretend")
def a_page_is_retired_at_the_next_reset():
    with card(readings={REMAPPED: None, RETIRED: [1.0]}):
        yield


@fault("health.errors", "xid-reported", "pretend")
def a_gpu_fell_off_the_bus_for_a_moment():
    with card(xids=[79]):
        yield


@fault("health.errors", "xid-of-a-program", "pretend")
def somebody_ended_another_program():
    with card(xids=[45]):
        yield
