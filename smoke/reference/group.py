"""Which of the processes of a job is at fault, by what each of them has seen.

Needs no torch. A process is named by its rank. One culprit is in all exchanges that fail, and any other
process in few of them; of two processes nobody can say which one it is.
"""

from __future__ import annotations

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
    """Yield the partner of each rank in each round, by the circle method; itself is a pause."""
    odd = size % 2
    last = size - 1 + odd  # an odd group has a ghost, whose partner pauses
    for number in range(min(last, ROUNDS)):
        pairs = [(number - rank) % last for rank in range(last)]
        (alone,) = (rank for rank in range(last) if pairs[rank] == rank)
        if not odd:
            pairs[alone] = last
            pairs.append(alone)
        yield pairs


def wrong_ranks(seen: Mapping[int, Seen]) -> list[int]:
    """Return the ranks between which and each of several partners numbers come wrong.

    A wrong sum of all accuses nobody: whoever changes it can change each part of it.
    """
    found = []
    for rank, facts in seen.items():
        wrong = [p for p in facts.partners if p in facts.wrong or rank in seen[p].wrong]
        if len(wrong) > 1 and len(wrong) == len(facts.partners):
            found.append(rank)
    return found if len(found) < len(seen) / 2 else []


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
