"""``benchmarks/results.json``: the rows of each subject, with the machine that they come from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Row

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULTS = Path(__file__).with_name("results.json")
SCHEMA = 2
Machine = dict[str, str]
# Subject -> the machine and the rows of its last run.
Results = dict[str, tuple[Machine, list[Row]]]


def read_results(path: Path = RESULTS) -> Results:
    """Return the results in a file; none where there is no file yet."""
    if not path.is_file():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        subject: (entry["machine"], [Row(**row) for row in entry["rows"]])
        for subject, entry in document["subjects"].items()
    }


def write_results(
    results: Mapping[str, tuple[Machine, list[Row]]], path: Path = RESULTS
) -> None:
    """Write results in the order of their subjects."""
    subjects = {
        subject: {"machine": machine, "rows": [asdict(row) for row in rows]}
        for subject, (machine, rows) in sorted(results.items())
    }
    text = json.dumps({"schema": SCHEMA, "subjects": subjects}, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")
