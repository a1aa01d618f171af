"""The committed results, the document that is rendered from them, and the harness."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.__main__ import SUBJECTS
from benchmarks.document import DOCUMENT, render
from benchmarks.harness import Contestant, Row, compare, interleave
from benchmarks.results import read_results, write_results
from benchmarks.workbench import ROOT

if TYPE_CHECKING:
    from pathlib import Path

README = ROOT / "README.md"
# A duration such as "1.5 s" or "20 ms"; "0.6 x" and "3.5 times" are ratios.
SECONDS = re.compile(r"\b\d+(?:\.\d+)? ?(?:s|ms|seconds|milliseconds)\b")


def test_the_document_is_what_the_results_render_to() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == render(read_results())


def rendered(row: Row) -> list[str]:
    return render({"build": ({"cores": "2"}, [row])}).splitlines()


def test_a_row_shows_the_seconds_that_were_kept() -> None:
    row = Row("warm", "provision", "uv", 3.2, 3.0, 3.5, 7, 12.8, 4.0)
    lines = rendered(row)
    spread = "**3.20** (3.00 to 3.50)"
    assert f"| build: warm | provision: 13 s | uv: 4.00 s | {spread} |" in lines
    lines = rendered(replace(row, seconds=None, rounds=1))
    assert "| build: warm | provision | uv: 4.00 s | **3.20** (once) |" in lines


def test_every_subject_was_measured_and_every_row_has_a_spread() -> None:
    results = read_results()
    assert set(results) == set(SUBJECTS)
    for _, rows in results.values():
        for row in rows:
            assert row.low <= row.ratio <= row.high
            assert row.rounds >= 1


def test_the_readme_gives_no_seconds() -> None:
    assert not SECONDS.findall(README.read_text(encoding="utf-8"))
    assert SECONDS.search("takes 1.5 s")


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    row = Row("warm", "provision", "uv", 3.2, 3.0, 3.5, 7, 12.8, 4.0)
    path = tmp_path / "results.json"
    write_results({"build": ({"cores": "2"}, [row])}, path)
    assert read_results(path) == {"build": ({"cores": "2"}, [row])}


def test_rounds_are_interleaved_and_the_first_is_not_counted() -> None:
    calls: list[str] = []

    def prepare() -> None:
        calls.append("prepare")

    first = Contestant("a", lambda: calls.append("a"), prepare)
    second = Contestant("b", lambda: calls.append("b"), prepare)
    seconds = interleave([first, second], 2)
    assert calls == ["prepare", "a", "prepare", "b"] * 3
    assert list(seconds) == ["a", "b"]
    assert len(seconds["a"]) == 2
    assert len(seconds["b"]) == 2


def test_a_row_is_the_median_of_the_ratios_of_each_round() -> None:
    # The ratio of the medians would be 4 / 2: a slow machine in one round moves both.
    (row,) = compare("case", {"a": [3.0, 4.0, 90.0], "b": [1.0, 2.0, 30.0]}, "a")
    assert row.ratio == 3.0
    assert row.low == 2.5
    assert row.high == 3.0
    assert row.seconds == 4.0
    assert row.other_seconds == 2.0
