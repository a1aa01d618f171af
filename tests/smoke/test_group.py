"""Processes of a job sum and exchange numbers: the wrong, the slow and the silent one are named."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from smoke import run
from smoke.reference.group import (
    ROUNDS,
    Seen,
    best_speeds,
    partners,
    slow_ranks,
    wrong_ranks,
)
from tests.smoke.faults import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOTHING = "the_group_waits_for_seconds_only"
CODES = {fault.name: fault.code for fault in FAULTS if fault.world == "group"}


def met(rank: int, size: int) -> list[int]:
    """Return the partners that a process has in all rounds."""
    others = {pairs[rank] for pairs in partners(size)}
    return sorted(others - {rank})


@pytest.mark.parametrize("size", [*range(1, 10), 64, 65])
def test_each_process_meets_another_in_each_round(size: int) -> None:
    rounds = list(partners(size))
    assert len(rounds) == max(1, min(size - 1 + size % 2, ROUNDS))
    for rank in range(size):
        for pairs in rounds:
            assert pairs[pairs[rank]] == rank
        others = met(rank, size)
        # Nobody twice, and nobody pauses more than once.
        assert len(others) >= len(rounds) - size % 2
        if size <= ROUNDS:
            assert len(others) == size - 1


def group(*nodes: str) -> dict[int, dict[str, Any]]:
    """What the processes of a healthy group on these nodes see."""
    found = {}
    for rank, node in enumerate(nodes):
        speeds = dict.fromkeys(range(len(nodes)), 10.0)
        del speeds[rank]
        found[rank] = {"node": node, "sums": 0, "wrong": [], "speeds": speeds}
    return found


def seen(facts: dict[int, dict[str, Any]]) -> dict[int, Seen]:
    return {rank: Seen(**each) for rank, each in facts.items()}


# Nodes of so many processes each, and how the launcher numbers the processes.
LAYOUTS = [
    (nodes, each, spread)
    for nodes, each in [(4, 8), (16, 8), (8, 2), (3, 4), (9, 1)]
    for spread in ("block", "cyclic")
]


@pytest.fixture(params=LAYOUTS)
def places(request: pytest.FixtureRequest) -> list[int]:
    """The node of each process of a job."""
    nodes, each, spread = request.param
    numbers = list(range(nodes)) * each
    return sorted(numbers) if spread == "block" else numbers


def named(places: list[int], is_wrong: Callable[[int, int], bool]) -> set[str]:
    """Return the nodes that are named where some pairs get wrong numbers."""
    facts = group(*map(str, places))
    for rank, fact in facts.items():
        others = met(rank, len(places))
        fact["speeds"] = dict.fromkeys(others, 10.0)
        fact["wrong"] = [other for other in others if is_wrong(rank, other)]
    return {facts[rank]["node"] for rank in wrong_ranks(seen(facts))}


def test_a_node_with_a_broken_network_card_is_named(places: list[int]) -> None:
    def crosses(rank: int, other: int) -> bool:
        return (places[rank] == 0) != (places[other] == 0)

    assert named(places, crosses) == {"0"}


def test_a_node_with_broken_memory_is_named(places: list[int]) -> None:
    def touches(rank: int, other: int) -> bool:
        return 0 in {places[rank], places[other]}

    assert named(places, touches) == {"0"}


def test_the_node_of_a_broken_device_is_named(places: list[int]) -> None:
    assert named(places, lambda *ranks: 0 in ranks) == {"0"}


def test_no_node_is_named_where_all_numbers_are_right(places: list[int]) -> None:
    assert named(places, lambda *_: False) == set()


def test_a_fault_within_one_of_two_nodes_is_named_and_one_between_them_is_not() -> None:
    facts = group(*"aaaabbbb")
    facts[1]["wrong"] = [0, 2, 3]
    assert wrong_ranks(seen(facts)) == [1]
    facts[1]["wrong"] = []
    for rank, fact in facts.items():
        fact["wrong"] = [other for other in facts if rank // 4 != other // 4]
    assert wrong_ranks(seen(facts)) == []


@pytest.mark.parametrize("size", [3, 4, 5])
def test_the_process_with_which_all_partners_get_wrong_numbers_is_at_fault(
    size: int,
) -> None:
    facts = group(*"abcde"[:size])
    assert wrong_ranks(seen(facts)) == []
    for rank, fact in facts.items():
        if rank != 2:  # who receives them
            fact |= {"wrong": [2], "sums": 7}
    assert wrong_ranks(seen(facts)) == [2]
    facts = group(*"abcde"[:size])
    facts[1]["wrong"] = list(range(size))  # it receives them itself
    assert wrong_ranks(seen(facts)) == [1]


def test_of_two_and_where_nobody_stands_out_nobody_is_at_fault() -> None:
    facts = group("a", "b")
    facts[0]["wrong"] = [1]
    assert wrong_ranks(seen(facts)) == []
    facts = group("a", "b", "c", "d")
    for each in facts.values():
        each["sums"] = 9
    assert wrong_ranks(seen(facts)) == []
    facts[0]["wrong"] = [1]  # one link
    assert wrong_ranks(seen(facts)) == []
    for rank, each in facts.items():  # the library
        each["wrong"] = [other for other in facts if other != rank]
    assert wrong_ranks(seen(facts)) == []


def test_the_best_speed_with_other_nodes_counts() -> None:
    facts = group("a", "b", "c", "c")
    for other in (0, 1, 2):
        facts[other]["speeds"][3] = facts[3]["speeds"][other] = 1.0
    facts[2]["speeds"][3] = facts[3]["speeds"][2] = 99.0  # in one machine
    assert best_speeds(seen(facts)) == {0: 10.0, 1: 10.0, 2: 10.0, 3: 1.0}
    assert slow_ranks(seen(facts)) == [3]
    assert slow_ranks(seen(group("a", "b"))) == []


def meeting(size: int) -> dict[str, str]:
    """Return where the processes of a job meet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return {"size": str(size), "address": "127.0.0.1", "port": port, "store": "own"}


@pytest.mark.machine
def test_a_process_that_contributes_wrong_numbers_is_named_by_all(
    harness: Callable[..., None], base: dict[str, Any], tmp_path: Path
) -> None:
    expect = tmp_path / "expect"
    expect.write_text(json.dumps(base | {"group": meeting(3)}), encoding="utf-8")
    wrong = "a_process_contributes_wrong_numbers"
    harness("--job", expect, tmp_path, NOTHING, NOTHING, wrong)
    for rank in "012":
        (check,) = json.loads((tmp_path / rank).read_text(encoding="utf-8"))
        symptom = f"rank 2 on {socket.gethostname()}: wrong numbers"
        assert check["outcome"] == "failed"
        assert check["finding"]["code"] == CODES[wrong]
        assert check["finding"]["symptom"] == symptom
        assert check["finding"]["evidence"]


@pytest.fixture
def job(
    harness: Callable[..., None], base: dict[str, Any], tmp_path: Path
) -> Callable[..., list[dict[str, Any]]]:
    """Start the processes of a job, each under a fault; return their checks."""

    def process(rank: int, fault: str, group: dict[str, str], code: int) -> Any:
        expect, report = tmp_path / f"expect{rank}", tmp_path / f"report{rank}"
        own = {"group": group | {"rank": str(rank)}}
        expect.write_text(json.dumps(base | own), encoding="utf-8")
        words = ("--supervise", fault, expect, report)
        harness(*words, "--full", "--only", "group", ends_with=code)
        checks = json.loads(report.read_text(encoding="utf-8"))["checks"]
        return {check["id"]: check for check in checks}["group.exchange"]

    def start(*faults: str, code: int) -> list[dict[str, Any]]:
        group = meeting(len(faults))
        with ThreadPoolExecutor() as pool:
            running = []
            for rank, fault in enumerate(faults):
                if fault:  # else it never comes
                    running.append(pool.submit(process, rank, fault, group, code))
            return [each.result() for each in running]

    return start


@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        (
            "a_process_contributes_wrong_numbers",
            "failed",
            "rank 2 on {}: wrong numbers",
        ),
        ("a_process_is_slow", "warned", "rank 2 on {}: slower than the group"),
        (
            "a_process_hangs",
            "failed",
            "could not sum numbers: rank 2 on {} does not answer",
        ),
    ],
)
def test_one_of_three_processes_is_at_fault(
    job: Callable[..., list[dict[str, Any]]], fault: str, outcome: str, words: str
) -> None:
    found = job(NOTHING, NOTHING, fault, code=int(outcome == "failed"))
    node = socket.gethostname()
    symptom = words.format(node)
    for rank in (0, 1):
        check = found[rank]
        assert check["outcome"] == outcome, check
        assert check["finding"]["code"] == CODES.get(fault, "network-failure")
        assert check["finding"]["symptom"] == symptom
        assert check["finding"]["evidence"]


@pytest.mark.machine
@pytest.mark.slow
def test_who_comes_later_names_the_same_absent_process_as_the_first(
    job: Callable[..., list[dict[str, Any]]],
) -> None:
    """The first one has the store, and its time is up while the other one still waits."""
    for check in job(NOTHING, "a_process_comes_later", "", code=1):
        assert check["finding"]["code"] == "network-failure"
        assert check["finding"]["symptom"] == "rank 2 did not come within 20 s"


@pytest.mark.machine
@pytest.mark.slow
def test_four_healthy_processes_pass(
    job: Callable[..., list[dict[str, Any]]],
) -> None:
    for check in job(NOTHING, NOTHING, NOTHING, NOTHING, code=0):
        assert check["outcome"] in {"passed", "warned"}
        assert check["numbers"]["processes"]["value"] == 4


@pytest.mark.machine
@pytest.mark.slow
def test_the_others_have_no_verdict_where_the_first_process_ends(
    job: Callable[..., list[dict[str, Any]]],
) -> None:
    found = job("the_first_process_ends", NOTHING, NOTHING, NOTHING, code=1)
    assert found[0]["finding"]["code"] == "process-died"
    for check in found[1:]:
        assert check["finding"]["code"] == "network-failure"
        symptom = check["finding"]["symptom"]
        assert f"rank 0 on {socket.gethostname()} has ended" in symptom


@pytest.mark.machine
@pytest.mark.slow
def test_the_others_end_and_name_the_first_process_where_it_is_silent(
    job: Callable[..., list[dict[str, Any]]],
) -> None:
    found = job("the_first_process_stops", NOTHING, code=1)
    assert found[0]["finding"]["code"] == CODES["the_first_process_stops"]
    for check in found[1:]:
        assert check["finding"]["code"] == "network-failure"
        symptom = check["finding"]["symptom"]
        assert f"rank 0 on {socket.gethostname()} is silent" in symptom


@pytest.mark.parametrize("place", [None, "alone"])
def test_a_check_between_processes_needs_some(
    base: dict[str, Any],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    place: str | None,
) -> None:
    group = {"rank": "0", "size": "1", "address": "n", "port": "1", "store": "own"}
    expect = tmp_path / "expect"
    own = {"group": group if place else None}
    expect.write_text(json.dumps(base | own), encoding="utf-8")
    words = [str(expect), str(tmp_path / "report"), "--full", "--only", "group"]
    assert run.main(words) == 2
    assert "no group: start it under torchrun" in capfd.readouterr().err
    assert not (tmp_path / "report").exists()


@pytest.mark.machine
@pytest.mark.slow
def test_a_broken_device_is_the_fault_of_its_own_process(
    job: Callable[..., list[dict[str, Any]]],
) -> None:
    broken = "a_process_has_a_broken_device"
    found = job(NOTHING, NOTHING, broken, NOTHING, code=1)
    assert found[2]["finding"]["code"] == CODES[broken]
    assert "ECC" in found[2]["finding"]["symptom"]
    for rank in (0, 1, 3):
        assert found[rank]["finding"]["code"] == "network-failure"
        assert f"rank 2 on {socket.gethostname()}" in found[rank]["finding"]["symptom"]


@pytest.mark.machine
@pytest.mark.slow
def test_a_port_that_is_in_use_is_no_fault_of_the_network(
    job: Callable[..., list[dict[str, Any]]],
) -> None:
    taken = "another_program_has_the_port"
    check, *_ = job(taken, "", "", "", code=1)
    assert check["finding"]["code"] == CODES[taken]
    assert "at which the processes meet" in check["finding"]["symptom"]
