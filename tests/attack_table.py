"""The table of attacks: each test of one gives a row (attack, promise, seen).

A test is one by its name, ``test_attack_…``, or by its mark, ``attack("what", promise="…")``.
Without the mark, the first line of its docstring says what is tried, and a line ``Promise: …`` what
holds. A test may say what it saw: ``record_property("seen", "200 of 200 survived")``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class Row(NamedTuple):
    """One line of the table."""

    attack: str
    promise: str
    seen: str


def mark(item: pytest.Item) -> None:
    """Mark a test whose name is that of an attack, and note the row in its report."""
    given = item.get_closest_marker("attack")
    if given is None and not item.name.startswith("test_attack_"):
        return
    item.add_marker(given.name if given else "attack")
    function = getattr(item, "function", None)
    text = (function.__doc__ if function else "") or ""
    promise = re.search(r"Promise: (.*(?:\n.+)*)", text)
    name = (
        item.name.partition("[")[0].removeprefix("test_attack_").removeprefix("test_")
    )
    what = text.strip().partition("\n")[0] or name.replace("_", " ")
    said = " ".join(promise[1].split()) if promise else ""
    if given:
        what = str(given.args[0]) if given.args else what
        said = str(given.kwargs.get("promise", said))
    # Properties travel with the report, from the processes of pytest-xdist too.
    item.user_properties += [("attack", what), ("promise", said)]


def rows(reports: dict[str, list[pytest.TestReport]]) -> Iterator[Row]:
    """Yield a row per attack; the cases of a parametrised test share one."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for outcome in ("passed", "failed", "error", "skipped", "xfailed"):
        for report in reports.get(outcome, []):
            told = {
                key: str(value) for key, value in getattr(report, "user_properties", ())
            }
            if "attack" in told:
                key = told["attack"], told["promise"]
                found.setdefault(key, []).append((outcome, told.get("seen", "")))
    for (what, promise), cases in sorted(found.items()):
        held = sum(outcome == "passed" for outcome, _ in cases)
        skipped = sum(outcome == "skipped" for outcome, _ in cases)
        verdict = (
            "held" if held == len(cases) else "not tried here" if skipped else "BROKEN"
        )
        count = f" ({held} of {len(cases)})" if len(cases) > 1 else ""
        seen = "; ".join(dict.fromkeys(text for _, text in cases if text))
        yield Row(what, promise, f"{verdict}{count}{': ' if seen else ''}{seen}")


def print_table(reporter: pytest.TerminalReporter) -> None:
    """Print the table, a column each as wide as it has to be."""
    table = [Row("attack", "promise", "seen"), *rows(reporter.stats)]
    widths = [max(len(row[column]) for row in table) for column in range(2)]
    reporter.section(f"{len(table) - 1} attacks")
    for row in table:
        cells = [row[column].ljust(widths[column]) for column in range(2)]
        reporter.write_line("  ".join((*cells, row.seen)))
