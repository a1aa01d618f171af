"""Every check fails under its fault, with its own finding, and no other check fails with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.smoke.conftest import TABLE, failures
from tests.smoke.faults import DEEP, FAULTS, Fault, check_ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORLDS = ("cpu", "pretend")
PARTS = 3  # processes, one after the other: the limit of time is for one
Results = dict[str, list[dict[str, Any]]]
INJECTED = [fault for fault in FAULTS if fault.world in WORLDS]


def one_per_area() -> list[Fault]:
    """Return the first fault of each area, one that is found quickly where it has one."""
    areas: dict[str, Fault] = {}
    # torch's samples take longer than all other checks.
    order = sorted(INJECTED, key=lambda fault: fault.check == "operators.samples")
    for fault in sorted(order, key=lambda fault: fault.check in DEEP):
        if fault.code:
            areas.setdefault(fault.check.partition(".")[0], fault)
    return list(areas.values())


FAST = one_per_area()


@pytest.fixture(scope="module")
def play(
    harness: Callable[..., None], sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Results]:
    """Run the suite under faults of one world; return what each check reported, by fault."""

    def start(world: str, names: list[str], *, beside: bool) -> Results:
        folder = tmp_path_factory.mktemp("faults")
        asked, out = folder / "asked.json", folder / "out.json"
        asked.write_text(json.dumps({"names": names, "beside": beside}))
        harness(world, sound, asked, out)
        reported: Results = json.loads(out.read_text(encoding="utf-8"))
        return reported

    return start


@pytest.fixture(scope="module")
def fast(play: Callable[..., Results]) -> dict[str, Results]:
    """What was reported under one fault of each area, by world."""
    reported = {}
    for world in WORLDS:
        names = [fault.name for fault in FAST if fault.world == world]
        reported[world] = play(world, ["none", *names], beside=False)
    return reported


@pytest.fixture(scope="module")
def results(play: Callable[..., Results]) -> dict[str, Results]:
    """What every check reported under every fault, by world."""
    reported: dict[str, Results] = {}
    for world in WORLDS:
        names = ["none", *(fault.name for fault in INJECTED if fault.world == world)]
        reported[world] = {}
        for part in range(PARTS):
            # Each part takes every third, as the long ones stand together.
            reported[world] |= play(world, names[part::PARTS], beside=True)
    return reported


@pytest.mark.machine
@pytest.mark.parametrize("world", WORLDS)
def test_nothing_fails_where_nothing_is_wrong(
    fast: dict[str, Results], world: str
) -> None:
    checks = fast[world]["none"]
    assert len(checks) > 10
    assert failures(checks) == []


def found_by(fault: Fault) -> list[tuple[str, str]]:
    """Return which checks have to find a fault, and their findings."""
    return [(fault.check, fault.code)] if fault.code else []


@pytest.mark.machine
def test_a_fault_of_each_area_is_found(fast: dict[str, Results]) -> None:
    for fault in FAST:
        checks = fast[fault.world][fault.name]
        assert failures(checks) == found_by(fault), (fault.name, checks)


@pytest.mark.profiles
@pytest.mark.parametrize("fault", INJECTED, ids=lambda fault: fault.name)
def test_exactly_one_check_finds_the_fault(
    results: dict[str, Results], fault: Fault
) -> None:
    checks = results[fault.world][fault.name]
    symptoms = [each["finding"]["symptom"] for each in checks if each["finding"]]
    assert failures(checks) == found_by(fault), symptoms


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
    found = {
        (each["finding"]["code"], each["outcome"])
        for world in WORLDS
        for checks in results[world].values()
        for each in checks
        if each["finding"] and each["finding"]["level"] != "note"
    }
    assert {code for code, outcome in found if outcome == "warned"} == WARNINGS
    assert {code for code, outcome in found if outcome == "failed"}.isdisjoint(WARNINGS)


@pytest.mark.profiles
@pytest.mark.parametrize("world", WORLDS)
def test_the_table_of_checks_and_faults(
    results: dict[str, Results], world: str, record_property: Callable[[str, str], None]
) -> None:
    """Print it: it is the proof that the suite can fail."""
    lines = [
        f"\n{'check':20} {'fault':52} {'finding':30} beside it, in the world {world}"
    ]
    for fault in sorted(FAULTS, key=lambda each: (each.check, each.name)):
        if fault.world == world and fault.code:
            passed = len(results[world][fault.name]) - 1
            beside = f"{passed} other checks pass" if passed else "no other check"
            name = fault.name.replace("_", " ")
            lines.append(f"{fault.check:20} {name:52} {fault.code:30} {beside}")
    assert len(lines) > 10
    record_property(TABLE, "\n".join(lines))


def test_every_check_has_a_fault_with_a_finding() -> None:
    aimed = {fault.check.partition("@")[0] for fault in FAULTS if fault.code}
    assert aimed == check_ids()
