"""How time grows with the size of the input; linear growth is the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness import Row, make_row

if TYPE_CHECKING:
    from collections.abc import Mapping


def growth(case: str, tool: str, unit: str, seconds: Mapping[int, list[float]]) -> list[Row]:
    """Return one row per size: how many times as long as the smallest size it took."""
    smallest = min(seconds)
    return [
        make_row(case, tool, f"itself with {smallest} {unit}", taken, seconds[smallest], size)
        for size, taken in sorted(seconds.items())
        if size != smallest
    ]
