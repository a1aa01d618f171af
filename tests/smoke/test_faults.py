"""Every check fails under its fault, with its own finding, and no other check fails with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.smoke.conftest import TABLE, failures
from tests.smoke.faults import FAULTS, Fault, check_ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARTS = {
    "cpu": 1,
    "pretend": 3,
}  # each a process of its own: the limit of time is for one
WORLDS = tuple(PARTS)
Results = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def results(
    harness: Callable[..., None], sound: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Results]:
    """What every check reported under every fault, by world."""
    out = tmp_path_factory.mktemp("faults") / "found.json"
    found: dict[str, Results] = {}
    for world, parts in PARTS.items():
        # One after the other, as other tests run beside them.
        for part in range(parts):
            harness(world, sound, out, part, parts)
            found.setdefault(world, {}).update(
                json.loads(out.read_text(encoding="utf-8"))
            )
    return found


@pytest.mark.machine
@pytest.mark.parametrize("world", WORLDS)
def test_nothing_fails_where_nothing_is_wrong(
    results: dict[str, Results], world: str
) -> None:
    found = results[world]["none"]
    assert len(found) > 10
    assert failures(found) == []


@pytest.mark.machine
@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f.world in WORLDS], ids=lambda fault: fault.name
)
def test_exactly_one_check_finds_the_fault(
    results: dict[str, Results], fault: Fault
) -> None:
    expected = [(fault.check, fault.code)] if fault.code else []
    found = results[fault.world][fault.name]
    told = [
        (each["id"], each["finding"]["symptom"]) for each in found if each["finding"]
    ]
    assert failures(found) == expected, told


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


@pytest.mark.machine
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


@pytest.mark.machine
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
