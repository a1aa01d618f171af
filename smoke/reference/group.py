"""Which of the processes of a job is at fault, by what each of them has seen.

Needs no torch. A process is named by its rank. One culprit is in all exchanges that fail, and any other
process in few of them; of two processes nobody can say which one it is.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

ROUNDS = 8  # partners of a process in a large group: its best speed needs a healthy one
SLOW = (
    0.5  # of the group's median: exchanges at the same time share links and processors
)


@dataclass(frozen=True)
class Seen:
    """What one process has seen."""

    node: str
    sums: int  # wrong numbers in the sum of all
    wrong: Sequence[int]  # partners from whom, or with whom, numbers came wrong
    speeds: Mapping[int, float]  # GB/s with each partner


ByRank = Mapping[int, Seen]


def partners(size: int) -> Iterator[list[int]]:
    """Yield the partner of each rank in each round, by the circle method; itself is a pause.

    The rounds are drawn, alike in all processes: those at equal distances can bring only partners of
    one node, however the ranks are spread over the nodes.
    """
    odd = size % 2
    last = size - 1 + odd  # an odd group has a ghost, whose partner pauses
    draw = random.Random(size)  # noqa: S311 - not for secrets
    rounds = draw.sample(range(last), min(last, ROUNDS))
    for number in sorted(rounds):
        pairs = [(number - rank) % last for rank in range(last)]
        (alone,) = (rank for rank in range(last) if pairs[rank] == rank)
        if not odd:
            pairs[alone] = last
            pairs.append(alone)
        yield pairs


def wrong_ranks(seen: ByRank) -> list[int]:
    """Return the ranks between which and each of several partners numbers come wrong.

    A wrong sum of all accuses nobody: whoever changes it can change each part.
    """
    culprits = [rank for rank in seen if _is_culprit(rank, seen)]
    return culprits if len(culprits) < len(seen) / 2 else []


def _is_culprit(rank: int, seen: ByRank) -> bool:
    """Return whether all exchanges with other nodes, or all in the node, are wrong.

    A network card spoils what leaves its node, and a device or a link what stays in it: each is
    looked for on its own, among at least two nodes or two neighbours.
    """
    node = seen[rank].node
    neighbours: list[int] = []
    others: list[int] = []
    for partner in seen[rank].speeds:
        if seen[partner].node == node:
            neighbours.append(partner)
        else:
            others.append(partner)
    nodes = {seen[partner].node for partner in others}
    if len(nodes) > 1 and _all_wrong(rank, others, seen):
        return True
    return len(neighbours) > 1 and _all_wrong(rank, neighbours, seen)


def _all_wrong(rank: int, others: Sequence[int], seen: ByRank) -> bool:
    return all(p in seen[rank].wrong or rank in seen[p].wrong for p in others)


def is_wrong(seen: Seen) -> bool:
    """Return whether any numbers came wrong to a process."""
    return bool(seen.sums or seen.wrong)


def best_speeds(seen: ByRank) -> dict[int, float]:
    """Return the best speed of each rank, with other nodes where there are several."""
    nodes = {facts.node for facts in seen.values()}
    best = {}
    for rank, facts in seen.items():
        speeds = []
        for partner, speed in facts.speeds.items():
            if len(nodes) == 1 or seen[partner].node != facts.node:
                speeds.append(speed)
        if speeds:
            best[rank] = max(speeds)
    return best


def slow_ranks(seen: ByRank) -> list[int]:
    """Return the ranks whose best speed is far below the group's; two have nothing to compare with."""
    best = best_speeds(seen)
    if len(best) < 3:
        return []
    usual = statistics.median(best.values())
    return [rank for rank, speed in best.items() if speed < SLOW * usual]
