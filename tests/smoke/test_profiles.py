"""Healthy devices pass: every target on every device that it is for, and on devices in no list.

The devices are profiles that the pretend accelerator plays; see `profiles.toml` for what they are
made of. Which checks a device may leave out follows from what its profile lacks, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.smoke import profiles
from tests.smoke.conftest import CORES, prove

if TYPE_CHECKING:
    from tests.smoke.conftest import Play, Results

World = dict[str, Any]
# One of each accelerator runs the checks of `DEEP`, too: they are about operators.
DEEPLY = [
    ("arc-linux", "arc-a770-linux"),
    ("cuda-linux", "h100-linux"),
    ("mps-macos", "apple-mps"),
]
FOR_NO_TARGET = {"uhd770-beside-arc-linux"}


# The data -----------------------------------------------------------------------------------------


def test_every_value_that_counts_as_seen_has_a_source() -> None:
    known = profiles.profiles()
    assert len(known) == 39
    for profile in known.values():
        for key in profile.seen:
            assert profile.sources[key], (profile.id, key)
        assert not set(profile.seen) & set(profile.inferred), profile.id
    texts = profiles.document()["texts"]
    assert set(texts) == {*texts["sources"], "sources"}


def test_every_profile_is_for_a_target_or_named_as_for_none() -> None:
    pairs = profiles.pairs()
    played = {profile for _target, profile in pairs}
    assert played == set(profiles.profiles()) - FOR_NO_TARGET
    assert {target for target, _profile in pairs} == set(profiles.targets())


# Healthy devices ----------------------------------------------------------------------------------


def world_of(pair: tuple[str, str], base: World) -> World:
    """Return the world of a target and a profile."""
    target, profile = pair
    made = profiles.world(target, profiles.profiles()[profile], base)
    return {**made, "deep": pair in DEEPLY}


@pytest.fixture(scope="module")
def every(play: Play, base: World) -> Results:
    """What was found in every world: together, as each play imports torch several times."""
    # The longest first, so that the processes, which share them out, end together.
    pairs = sorted(profiles.pairs(), key=lambda pair: pair not in DEEPLY)
    worlds = [world_of(pair, base) for pair in pairs]
    worlds += [*invented(base), *unhealthy(base)]
    jobs = [{"name": w["name"], "world": w, "faults": []} for w in worlds]
    return play(jobs, CORES)


@pytest.mark.machine
@pytest.mark.profiles
@pytest.mark.parametrize("pair", profiles.pairs(), ids=" on ".join)
def test_every_healthy_device_passes(
    every: Results, base: World, pair: tuple[str, str]
) -> None:
    played = world_of(pair, base)
    prove(played, every[played["name"]])


# Healthy devices that are in no list --------------------------------------------------------------

NEW_ARC = {
    "name": "Intel(R) Arc(TM) C990 Graphics",
    "id": 0xFFF1,
    "driver": "1.99.99999+7",
    "memory": 40001 * 2**20,
    "prints": ["[Info] a line that no list has"],
}
OLD_CARD = {"name": "Quadro M2000", "capability": "5.2"}
INVENTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an Arc in no list": ("arc-linux", "arc-b580-linux", NEW_ARC),
    "an Arc without any float64": ("arc-linux", "arc-b580-linux", {"fp64": "none"}),
    "an Arc without a name": (
        "arc-windows",
        "lnl-140v-windows",
        {"name": "Intel(R) Graphics"},
    ),
    "a slice of an A100": (
        "cuda-linux",
        "a100-linux",
        {"name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "memory": 4864 * 2**20},
    ),
    "an H100 beside a card that is too old": (
        "cuda-linux",
        "h100-linux",
        {"others": [OLD_CARD]},
    ),
}
SECOND = "the card that is too old"


def invented(base: dict[str, Any]) -> list[World]:
    """Return worlds of healthy devices that the facts do not have, and of one beside them."""
    known = profiles.profiles()
    worlds: list[World] = []
    for name, (target, profile, changes) in INVENTED.items():
        made = profiles.world(target, known[profile], base, **changes)
        worlds.append({**made, "name": name})
    return [*worlds, {**worlds[-1], "name": SECOND, "device": 1}]


@pytest.mark.profiles
def test_a_second_device_that_the_target_is_not_for_is_left_out(every: Results) -> None:
    reported = every[SECOND]
    assert [result for result in reported["results"] if result["finding"]] == []
    excused = {entry["id"] for entry in reported["excused"]}
    assert {"device.ready@1", "device.matmul@1"} <= excused


@pytest.mark.profiles
@pytest.mark.parametrize("name", INVENTED)
def test_a_healthy_device_that_is_in_no_list_passes(
    every: Results, base: dict[str, Any], name: str
) -> None:
    (played,) = [world for world in invented(base) if world["name"] == name]
    prove(played, every[name])


# Machines that are not healthy --------------------------------------------------------------------

BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"
LOST = "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"
UHD = {"name": "Intel(R) UHD Graphics 770", "id": 0x4680, "fp64": "none"}
# Name -> target, profile, what the device says, check, text of its finding.
UNHEALTHY: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "the processor's GPU comes first": (
        "arc-linux",
        "arc-a770-linux",
        {**UHD, "others": [{}]},
        "device.family",
        "Intel(R) UHD Graphics 770 is of family",
    ),
    "another program holds the device": (
        "cuda-linux",
        "h100-linux",
        {"refuses": BUSY},
        "device.ready",
        "busy or unavailable",
    ),
    "the first kernel loses the device, and a copy raises the error": (
        "arc-linux",
        "arc-b580-linux",
        {"loses": LOST},
        "device.ready",
        "UR_RESULT_ERROR_DEVICE_LOST",
    ),
    "WSL without Intel's libraries": (
        "arc-linux",
        "mtl-155h-wsl",
        {"available": False},
        "device.ready",
        "device nodes = none",
    ),
    "a virtual machine without Metal": (
        "mps-macos",
        "apple-mps",
        {"available": False},
        "device.ready",
        "no mps device is usable",
    ),
    "the wheel has no code for the device": (
        "cuda-linux",
        "t4-linux",
        {"capability": "6.1"},
        "device.family",
        "sm_61",
    ),
}


def unhealthy(base: dict[str, Any]) -> list[World]:
    """Return worlds in which the device must not pass."""
    known = profiles.profiles()
    return [
        {**profiles.world(target, known[profile], base, **says), "name": name}
        for name, (target, profile, says, _check, _text) in UNHEALTHY.items()
    ]


@pytest.mark.profiles
@pytest.mark.parametrize("name", UNHEALTHY)
def test_an_unhealthy_device_does_not_pass(every: Results, name: str) -> None:
    *_, check, text = UNHEALTHY[name]
    failed = []
    for result in every[name]["results"]:
        if result["outcome"] == "failed" and result["finding"]["code"] != "blocked":
            failed.append(result)
    (only,) = failed
    assert only["id"] == check
    lines = [only["finding"]["symptom"], *only["finding"]["evidence"]]
    assert any(text in line for line in lines), lines
