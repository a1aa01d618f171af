"""Lines and tables that fit a width in characters; what is piped has none, and a line per row."""

import re
from collections.abc import Sequence

GLUE = "\x00"  # a space that is kept; no text that is shown has this character
_NARROW = 20  # characters; a text in less is hard to read


def wrapped(text: str, width: int | None, hang: int) -> list[str]:
    """Return a line as several that are parted between words, but in no command in backticks.

    A word that is longer, such as a path, stays whole. ``hang`` indents all lines but the first.
    """
    if width and 0 < width < len(text):
        import textwrap  # noqa: PLC0415 - what is piped is never parted

        hang = hang if hang <= max(width // 2, width - _NARROW) else 4
        short = rf"`[^`]{{1,{max(width - hang - 4, 1)}}}`"
        parted = textwrap.wrap(
            re.sub(short, lambda found: found[0].replace(" ", GLUE), text),
            width,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [line.replace(GLUE, " ") for line in parted]
    return [text.replace(GLUE, " ")]


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> tuple[int, list[str]]:
    """Return where the last column begins, in which lines may be parted, the head and the rows.

    Where it were too narrow, each row is a record without a head: lines of ``name: value``.
    """
    cells = [
        list(columns),
        *([" ".join(cell.splitlines()) for cell in row] for row in rows),
    ]
    *widths, last = [max(map(len, column)) + 2 for column in zip(*cells, strict=True)]
    start, form = sum(widths), "".join(f"{{:<{pad}}}" for pad in widths) + "{}"
    if not width or start + min(last - 2, _NARROW) <= width:
        return start, [form.format(*row) for row in cells]
    names = [f"{name.strip()}:" for name in columns]
    pad = max(map(len, names)) + 1
    return pad, [
        "",
        *(
            "\n".join(
                f"{name:<{pad}}{cell.strip()}"
                for name, cell in zip(names, row, strict=True)
            )
            + "\n"
            for row in cells[1:]
        ),
    ]
