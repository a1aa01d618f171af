"""Measure subjects and write results.json and docs/benchmarks.md; see ``nox -s bench``."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path

from benchmarks.document import DOCUMENT, render
from benchmarks.machine import describe_machine
from benchmarks.results import read_results, write_results
from benchmarks.workbench import ROOT, Workbench

SUBJECTS = ("build", "detect", "edit", "fleet", "lock", "startup", "verify")


def main() -> None:
    """Measure the requested subjects; the others keep their results."""
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help=", ".join(SUBJECTS)
    )
    parser.add_argument("--rounds", type=int, default=7, help="1 is a quick look")
    parser.add_argument(
        "--tools", type=Path, required=True, help="Python with the bench group"
    )
    words = parser.parse_args()
    if unknown := set(words.subjects) - set(SUBJECTS):
        parser.error(f"no such subject: {', '.join(sorted(unknown))}")
    results = read_results()
    for subject in words.subjects or SUBJECTS:
        with tempfile.TemporaryDirectory(
            dir=ROOT / ".cache", prefix="bench-"
        ) as folder:
            bench = Workbench(Path(folder), words.rounds, words.tools)
            rows = importlib.import_module(f"benchmarks.{subject}").rows(bench)
        for row in rows:
            print(subject, row.case, f"{row.tool} / {row.against}: {row.ratio}")
        results[subject] = (describe_machine(), rows)
        write_results(results)
    DOCUMENT.write_text(render(results), encoding="utf-8")


if __name__ == "__main__":
    main()
