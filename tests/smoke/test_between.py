"""The network between nodes: who is named as wrong or slow, and how a rank finds its place."""

from __future__ import annotations

from typing import Any

import pytest

from smoke.between import judge
from smoke.engine.launchers import NoVerdict, partners, place_of


def result(rank: int, size: int, **changes: Any) -> dict[str, Any]:
    """What a rank tells of a healthy group; a pair that a change names by its rank is another."""
    pairs = {str(r): {"rate": 1.0, "wrong": 0} for r in range(size) if r != rank}
    for name, pair in changes.pop("pairs", {}).items():
        pairs[name] = pairs[name] | pair
    parts = {"host": f"n{rank}", "sum_rate": 0.5, "wrong_sums": 0}
    return parts | changes | {"pairs": pairs}


def test_a_healthy_group_names_nobody() -> None:
    for size in (1, 2, 4):
        assert judge([result(r, size) for r in range(size)]) == ([], [])


def test_a_rank_whose_numbers_arrive_wrong_everywhere_is_named() -> None:
    bad = {"2": {"wrong": 9}}
    ranks = [result(r, 4, pairs=bad if r != 2 else {}, wrong_sums=5) for r in range(4)]
    assert judge(ranks)[0] == ["n2 (rank 2) exchanges wrong numbers with 3 ranks"]


def test_a_pair_is_named_where_only_their_link_is_wrong() -> None:
    ranks = [result(r, 4) for r in range(4)]
    ranks[1] = result(1, 4, pairs={"3": {"wrong": 1}})
    assert judge(ranks)[0] == ["wrong numbers between n1 (rank 1) and n3 (rank 3)"]


def test_wrong_sums_are_named_where_every_exchange_was_right() -> None:
    ranks = [result(r, 3, wrong_sums=7 * (r == 1)) for r in range(3)]
    assert judge(ranks)[0] == ["n1 (rank 1) has 7 wrong sums"]


def test_a_rank_that_is_slow_with_all_others_is_named_and_they_are_not() -> None:
    slow = {"rate": 0.1}
    ranks = [result(r, 4, pairs={"1": slow} if r != 1 else {}) for r in range(4)]
    ranks[1] = result(1, 4, pairs=dict.fromkeys("023", slow))
    (line,) = judge(ranks)[1]
    assert line.startswith("n1 (rank 1): 0.1 GB/s, 1 is usual")
    two = [result(r, 2, pairs={str(1 - r): slow}) for r in range(2)]
    assert judge(two) == ([], [])  # of two, nobody knows which


@pytest.mark.parametrize("size", range(1, 10))
def test_each_rank_meets_each_other_once_and_at_the_same_time(size: int) -> None:
    turns = [list(partners(rank, size)) for rank in range(size)]
    for rank, others in enumerate(turns):
        assert sorted(others) == [r for r in range(size) if r != rank]
        for turn, other in enumerate(others):
            assert size % 2 or turns[other][turn] == rank


TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "n0"}
SRUN = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
MPIRUN = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "a"}


def test_each_launcher_tells_a_rank_its_place() -> None:
    agent = {"MASTER_PORT": "1234", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    place = place_of(TORCHRUN | agent)
    assert (place.rank, place.size, place.local) == (3, 4, 1)
    assert (place.address, place.port, place.serves) == ("n0", 1234, False)
    nodes = {"SLURM_STEP_NODELIST": "gpu[007-009,12],login"}
    assert place_of(SRUN | nodes).address == "gpu007"
    assert place_of(SRUN | {"SLURM_STEP_NODELIST": "a1,a2"}).address == "a1"
    place = place_of(MPIRUN)
    assert (place.rank, place.size, place.serves) == (0, 2, True)


def test_a_start_without_a_launcher_or_an_address_is_no_verdict() -> None:
    with pytest.raises(NoVerdict, match="torchrun, srun or mpirun"):
        place_of({})
    with pytest.raises(NoVerdict, match="MASTER_ADDR"):
        place_of(SRUN)
