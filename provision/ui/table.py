"""Tables that fit a terminal, or say what they leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten

_ROOM = 30  # characters of the last column, for which other columns are left out
_NARROW = 12  # characters; a text in less is hard to read


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below the names of their columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def widths(self) -> list[int]:
        """The width of each column, with the gap behind it."""
        cells = zip(self.columns, *self.rows, strict=True)
        return [max(map(len, column)) + 2 for column in cells]

    @property
    def last(self) -> int:
        """Where the last column begins."""
        return sum(self.widths[:-1])

    def has_room(self, width: int, wanted: int = _NARROW) -> bool:
        """Whether the last column has so many characters, or all that it needs."""
        return width - self.last >= min(wanted, self.widths[-1] - 2)

    def narrowed(self, width: int, spare: Sequence[str]) -> Table:
        """Return it without some of the spare columns, and the last one of them shortened."""
        table = self
        for name in spare:
            if not table.has_room(width, _ROOM):
                table = table._without(name)
        if table.columns[-1] not in spare:
            return table
        room = width - table.last
        rows = []
        for *cells, last in table.rows:
            rows.append((*cells, shorten(last, room, placeholder=" …")))
        return Table(table.columns, tuple(rows))

    def _without(self, name: str) -> Table:
        at = self.columns.index(name)
        rows = tuple(row[:at] + row[at + 1 :] for row in self.rows)
        return Table(self.columns[:at] + self.columns[at + 1 :], rows)

    def lines(self) -> list[str]:
        """Return the names of the columns, then each row, as lines."""
        lines = []
        for *cells, last in (self.columns, *self.rows):
            padded = [f"{cell:<{width}}" for cell, width in zip(cells, self.widths)]  # noqa: B905
            lines.append("".join(padded) + last)
        return lines
