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


def test_a_row_shows_the_seconds_that_were_kept() -> None:
    row = Row("warm", "provision", "uv", 3.2, 3.0, 3.5, 7, 12.8, 4.0)
    text = render({"build": ({"cores": "2"}, [row])})
    assert (
        "\n| build: warm | provision: 13 s | uv: 4.00 s | **3.20** (3.00 to 3.50) |\n"
        in text
    )
    old = render({"build": ({"cores": "2"}, [replace(row, seconds=None, rounds=1)])})
    assert "\n| build: warm | provision | uv: 4.00 s | **3.20** (once) |\n" in old


def test_every_subject_was_measured_and_every_row_has_a_spread() -> None:
    results = read_results()
    assert set(results) == set(SUBJECTS)
    rows = [row for _, found in results.values() for row in found]
    assert all(row.low <= row.ratio <= row.high and row.rounds >= 1 for row in rows)


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
    contestants = [
        Contestant(
            name, lambda name=name: calls.append(name), lambda: calls.append("prepare")
        )
        for name in ("a", "b")
    ]
    seconds = interleave(contestants, 2)
    assert calls == ["prepare", "a", "prepare", "b"] * 3
    assert {name: len(taken) for name, taken in seconds.items()} == {"a": 2, "b": 2}


def test_a_row_is_the_median_of_the_ratios_of_each_round() -> None:
    # The ratio of the medians would be 4 / 2: a slow machine in one round moves both.
    (row,) = compare("case", {"a": [3.0, 4.0, 90.0], "b": [1.0, 2.0, 30.0]}, "a")
    assert (row.ratio, row.low, row.high) == (3.0, 2.5, 3.0)
    assert (row.seconds, row.other_seconds) == (4.0, 2.0)
