"""Every check fails under its fault, with its own finding, and passes in healthy states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.smoke.conftest import failures
from tests.smoke.faults import FAULTS, Fault, check_ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORLDS = ("cpu", "pretend")
Results = dict[str, list[dict[str, Any]]]
INJECTED = [fault for fault in FAULTS if fault.world in WORLDS]


# The failures that the mission names, and one where nothing is wrong; `profiles` has the others.
FAST = (
    "ipex_in_a_cuda_environment",
    "another_device_answers_first",
    "a_fusion_pass_puts_mul_add_on_cpu_tensors",
    "available_and_every_operation_fails",
    "mul_add_has_a_kernel_for_another_device",
    "mul_add_is_registered_and_right",
    "optimizer_state_stays_on_the_cpu",
    "a_tied_weight_is_filed_under_another_name",
    "the_device_is_no_faster_than_the_cpu",
)


@pytest.fixture(scope="module")
def play(
    harness: Callable[..., None], sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Results]:
    """Run the checks of faults of one world; return what they reported, by fault."""

    def start(world: str, faults: list[Fault]) -> Results:
        out = tmp_path_factory.mktemp("faults") / "out.json"
        harness(world, sound, out, *(fault.name for fault in faults))
        reported: Results = json.loads(out.read_text(encoding="utf-8"))
        return reported

    return start


def expected(fault: Fault) -> list[tuple[str, str]]:
    """Return which check has to find a fault, with its finding."""
    return [(fault.check, fault.code)] if fault.code else []


@pytest.mark.machine
@pytest.mark.parametrize("world", WORLDS)
def test_the_failures_of_the_mission_are_found(
    play: Callable[..., Results], world: str
) -> None:
    chosen = [fault for fault in INJECTED if fault.name in FAST]
    here = [fault for fault in chosen if fault.world == world]
    assert len(chosen) == len(FAST)
    reported = play(world, here)
    for fault in here:
        assert failures(reported[fault.name]) == expected(fault), fault.name


@pytest.fixture(scope="module")
def results(play: Callable[..., Results]) -> dict[str, Results]:
    """What the check of every fault reported, by world."""
    return {
        world: play(world, [fault for fault in INJECTED if fault.world == world])
        for world in WORLDS
    }


@pytest.mark.profiles
@pytest.mark.parametrize("fault", INJECTED, ids=lambda fault: fault.name)
def test_the_check_of_a_fault_finds_it(
    results: dict[str, Results], fault: Fault
) -> None:
    assert failures(results[fault.world][fault.name]) == expected(fault)


# Speed and noise are told, and what is unknown is no fault: none of them stops a build or a proof.
WARNINGS = {
    "cpu-fallback-enabled",
    "slow",
    "unknown-warning",
    "driver-unknown",
    "device-unknown",
    "row-remap-pending",
    "xid-of-a-program",
}


@pytest.mark.profiles
def test_only_speed_noise_and_the_unknown_are_warnings(
    results: dict[str, Results],
) -> None:
    by_outcome: dict[str, set[str]] = {"warned": set(), "failed": set()}
    for reported in results.values():
        for checks in reported.values():
            for check in checks:
                if check["finding"] and check["finding"]["level"] != "note":
                    by_outcome[check["outcome"]].add(check["finding"]["code"])
    assert by_outcome["warned"] == WARNINGS
    assert by_outcome["failed"].isdisjoint(WARNINGS)


def test_every_check_has_a_fault_with_a_finding() -> None:
    aimed = {fault.check.partition("@")[0] for fault in FAULTS if fault.code}
    assert aimed == check_ids()
