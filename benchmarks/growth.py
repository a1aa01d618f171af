"""Series over the size of the input: against other tools at each size, and the growth itself.

Linear growth is the bound. All sizes take part in the same interleaved rounds, so that a change of
the machine's load does not look like growth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.harness import compare, interleave, make_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness import Contestant, Row


def series(
    case: str, unit: str, sizes: Mapping[int, Sequence[Contestant]], rounds: int
) -> list[Row]:
    """Time contestants at several sizes.

    Args:
        case: Name of the rows.
        unit: What the sizes count.
        sizes: Size -> contestants; the first of each is the command whose growth is measured.
        rounds: How many rounds count.
    """
    tool = next(iter(sizes.values()))[0].name
    everyone = [
        replace(contestant, name=f"{size} {contestant.name}")
        for size, contestants in sizes.items()
        for contestant in contestants
    ]
    seconds = interleave(everyone, rounds)
    found: list[Row] = []
    for size, contestants in sizes.items():
        taken = {c.name: seconds[f"{size} {c.name}"] for c in contestants}
        found += compare(case, taken, tool, size=size)
    smallest, *larger = sorted(sizes)
    names = (tool, f"itself with {smallest} {unit}")
    base = seconds[f"{smallest} {tool}"]
    grown = [
        make_row(case, names, (seconds[f"{size} {tool}"], base), size)
        for size in larger
    ]
    return [*found, *grown]
