"""Lines and tables that fit a width in characters; without one, each row is one line.

A word that is longer than the width, such as a path, stays whole on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_GAP, _GLUE = 2, "\x00"  # between two columns; no text that is shown has this character
_NARROW = 20  # a last column of less is harder to read than a record


def wrapped(text: str, width: int | None, hang: int = 4) -> list[str]:
    """Return a line as several: parted between words, none of them inside a command in backticks.

    ``hang`` is the indentation of all but the first, unless that leaves less than half the width.
    """
    if not width or len(text) <= width:
        return [text]
    import textwrap  # noqa: PLC0415 - what is piped is never parted

    hang = hang if hang <= width // 2 else 4
    whole = re.sub(rf"`[^`]{{1,{max(width - hang - 4, 1)}}}`", lambda m: _glued(m[0]), text)
    parted = textwrap.wrap(
        whole, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_GLUE, " ") for line in parted]


def _glued(text: str) -> str:
    return text.replace(" ", _GLUE)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> list[list[str]]:
    """Return the lines of the head and of each row of a table; as records where it is too wide.

    A record is a line per cell: ``name: value``. It has no head.
    """
    cells = [list(columns), *([" ".join(cell.splitlines()) for cell in row] for row in rows)]
    wanted = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if not width or sum(wanted) + _GAP * (len(wanted) - 1) <= width:
        return [_lines(row, wanted) for row in cells]
    least = [max(map(_longest, column)) for column in zip(*cells, strict=True)]
    least[-1] = max(least[-1], min(wanted[-1], _NARROW))
    spare = width - sum(least) - _GAP * (len(least) - 1)
    if spare < 0:
        return [[], *(_record(columns, row, width) for row in cells[1:])]
    for place, most in enumerate(wanted):  # the first ones get all that they want
        given = min(most - least[place], spare)
        least[place] += given
        spare -= given
    return [_lines(row, least) for row in cells]


def _longest(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    from itertools import zip_longest  # noqa: PLC0415 - for tables only

    parts = [wrapped(cell, width, 0) for cell, width in zip(row, widths, strict=True)]
    return [
        (" " * _GAP).join(f"{part:<{n}}" for part, n in zip(line, widths, strict=True)).rstrip()
        for line in zip_longest(*parts, fillvalue="")
    ]


def _record(columns: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    names = max(len(name.strip()) for name in columns) + 1
    return [
        line
        for name, cell in zip(map(str.strip, columns), row, strict=True)
        for line in wrapped(f"{name + ':':<{names}} {cell.strip()}".rstrip(), width, names + 1)
    ] + [""]
