"""``fleet report`` of 10,000 nodes against reading and parsing the same files with Python's json."""

from __future__ import annotations

import json
import random
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Contestant, Row, compare, interleave, processor_time
from benchmarks.workbench import TARGET, Workbench, call

if TYPE_CHECKING:
    from pathlib import Path

NODES = 10_000
_PARSE = """
import json, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.json")):
    json.loads(path.read_bytes())
"""


def rows(bench: Workbench) -> list[Row]:
    """Return a row for the verdicts of the gate, and one for those of all quick checks."""
    bench.built()
    one = bench.folder / "verdicts"
    words = [TARGET, "--verdicts", str(one), "--contract", "slurm", "--node", "node"]
    found = []
    for verb in ("gate", "smoke"):
        call(bench.provision(verb, *words))
    for path in sorted(one.iterdir()):
        verdict = json.loads(path.read_text(encoding="utf-8"))
        folder = bench.folder / verdict["suite"]
        write_fleet(folder, verdict)
        size = path.stat().st_size / 1000
        case = f"{NODES:,} verdicts of {size:.0f} kB, processor time"
        seconds = interleave(
            [
                Contestant("json.loads", partial(parse, folder)),
                Contestant("provision fleet report", partial(report, bench, folder)),
            ],
            bench.rounds,
            clock=processor_time,
        )
        found += compare(case, seconds, "provision fleet report")
    return found


def write_fleet(folder: Path, verdict: dict[str, Any]) -> None:
    """Write a real verdict for each of many nodes, with speeds and errors that differ by 1 %."""
    folder.mkdir()
    chance = random.Random(1)  # noqa: S311 - not for secrets
    measured = [m for check in verdict["numbers"].values() for m in check.values()]
    values = [number["value"] for number in measured]
    for node in range(NODES):
        name = f"gpu{node:05d}"
        for number, value in zip(measured, values, strict=True):
            if number["unit"] != "count":
                number["value"] = value * chance.uniform(0.995, 1.005)
        path = folder / f"{name}.{verdict['target']}.{verdict['suite']}.json"
        path.write_text(json.dumps(verdict | {"node": name}), encoding="utf-8")


def parse(folder: Path) -> None:
    """Read and parse every file."""
    call([sys.executable, "-I", "-c", _PARSE, folder])


def report(bench: Workbench, folder: Path) -> None:
    """Report the fleet, all nodes of which are good."""
    call(bench.provision("fleet", "report", str(folder)))
