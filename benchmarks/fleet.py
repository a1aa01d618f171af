"""The report of a fleet, against reading the same files with Python's own json."""

from __future__ import annotations

import datetime as dt
import sys
from typing import TYPE_CHECKING

from benchmarks.growth import series
from benchmarks.harness import Contestant
from benchmarks.workbench import Workbench, call
from tests.report.fleets import write_fleet

if TYPE_CHECKING:
    from benchmarks.harness import Row

NODES = (1, 100, 1000, 10_000)
_READ = (
    "import json, pathlib, sys\n"
    "for path in sorted(pathlib.Path(sys.argv[1]).rglob('*.json')): json.loads(path.read_bytes())"
)


def rows(bench: Workbench) -> list[Row]:
    """Return the rows of fleets of several sizes."""

    def contestants(size: int) -> list[Contestant]:
        folder = bench.folder / str(size)
        write_fleet(folder, size, dt.datetime.now(dt.UTC))
        report = bench.provision("fleet", "report", str(folder))
        read = [sys.executable, "-I", "-c", _READ, str(folder)]
        return [
            Contestant("provision fleet report", lambda: call(report)),
            Contestant("json.loads of each file", lambda: call(read)),
        ]

    sizes = {size: contestants(size) for size in NODES}
    return series("verdicts", "verdicts", sizes, bench.rounds)
