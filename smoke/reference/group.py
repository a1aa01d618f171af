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

    @property
    def partners(self) -> Sequence[int]:
        """The ranks that it exchanged numbers with."""
        return list(self.speeds)


def partners(size: int) -> Iterator[list[int]]:
    """Yield the partner of each rank in each round, by the circle method; itself is a pause.

    The rounds are drawn, alike in all processes: those at equal distances can bring only partners of
    one node, however the ranks are spread over the nodes.
    """
    odd = size % 2
    last = size - 1 + odd  # an odd group has a ghost, whose partner pauses
    draw = random.Random(size)  # noqa: S311 - not for secrets
    for number in sorted(draw.sample(range(last), min(last, ROUNDS))):
        pairs = [(number - rank) % last for rank in range(last)]
        (alone,) = (rank for rank in range(last) if pairs[rank] == rank)
        if not odd:
            pairs[alone] = last
            pairs.append(alone)
        yield pairs


def wrong_ranks(seen: Mapping[int, Seen]) -> list[int]:
    """Return the ranks between which and each of several partners numbers come wrong.

    A network card spoils what leaves its node, and a device or a link what stays in it: each is
    looked for on its own. A wrong sum of all accuses nobody: whoever changes it can change each part.
    """
    found = [
        rank
        for rank in seen
        if _is_wrong_with_other_nodes(rank, seen) or _is_wrong_in_its_node(rank, seen)
    ]
    return found if len(found) < len(seen) / 2 else []


def _is_wrong_with_other_nodes(rank: int, seen: Mapping[int, Seen]) -> bool:
    """Return whether all exchanges with at least two other nodes are wrong."""
    own = seen[rank].node
    others = [p for p in seen[rank].partners if seen[p].node != own]
    several = len({seen[p].node for p in others}) > 1
    return several and _all_wrong(rank, others, seen)


def _is_wrong_in_its_node(rank: int, seen: Mapping[int, Seen]) -> bool:
    """Return whether all exchanges with at least two processes of the node are wrong."""
    own = seen[rank].node
    others = [p for p in seen[rank].partners if seen[p].node == own]
    return len(others) > 1 and _all_wrong(rank, others, seen)


def _all_wrong(rank: int, others: Sequence[int], seen: Mapping[int, Seen]) -> bool:
    return all(p in seen[rank].wrong or rank in seen[p].wrong for p in others)


def is_wrong(seen: Seen) -> bool:
    """Return whether any numbers came wrong to a process."""
    return bool(seen.sums or seen.wrong)


def best_speeds(seen: Mapping[int, Seen]) -> dict[int, float]:
    """Return the best speed of each rank, with other nodes where there are several."""
    several = len({facts.node for facts in seen.values()}) > 1
    best = {}
    for rank, facts in seen.items():
        speeds = [
            speed
            for partner, speed in facts.speeds.items()
            if not several or seen[partner].node != facts.node
        ]
        if speeds:
            best[rank] = max(speeds)
    return best


def slow_ranks(seen: Mapping[int, Seen]) -> list[int]:
    """Return the ranks whose best speed is far below the group's; two have nothing to compare with."""
    best = best_speeds(seen)
    if len(best) < 3:
        return []
    usual = statistics.median(best.values())
    return [rank for rank, speed in best.items() if speed < SLOW * usual]
