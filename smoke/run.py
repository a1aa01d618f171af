"""``python -I smoke/run.py EXPECT.json REPORT.json``: the supervisor.

The checks run in a worker process. When it dies or hangs, the running check fails with that as its
finding, and a fresh worker continues with the rest. This process never imports torch: a driver that
crashes or hangs must not take the report with it.
Exit codes: 0 every required check passed or warned, 1 some failed, 2 bad expectation or usage, 3 the
suite itself broke, or a required check was not run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# At the end of sys.path: a module of the environment with the same name must win, as for its users.
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))
sys.dont_write_bytecode = True

from smoke.engine import child_process, patience, report  # noqa: E402
from smoke.engine import expect as expectation  # noqa: E402 - the path comes first
from smoke.engine.check import IMPORT  # noqa: E402
from smoke.engine.check_files import check_files, declared  # noqa: E402
from smoke.engine.journal import Journal  # noqa: E402
from smoke.engine.machine_load import MachineLoad  # noqa: E402
from smoke.engine.plan import Plan, missing, reused  # noqa: E402

SCHEMA = 2  # of the report
WORKER = HERE / "engine" / "worker.py"
# Exit codes of pytest: all passed, some failed, no check left. The last alone is no error: a
# worker that died can have had the last one. What is required and was not run is looked up afterwards.
ENDED_WELL = (0, 1, 5)


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line. Switches are real switches: ``--full False`` is refused."""
    parser = argparse.ArgumentParser(
        "smoke", description="Check an environment on its device."
    )
    parser.add_argument("expect", type=Path, help="what the target promises")
    parser.add_argument("report", type=Path, help="where to write the report")
    parser.add_argument("--full", action="store_true", help="all checks (minutes)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ID", help="a check or area"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="seconds of silence until a check counts as hung, unless it computes",
    )
    parser.add_argument(
        "--journal", type=Path, metavar="FILE", help="keep the journal here"
    )
    parser.add_argument(
        "--ended",
        default="",
        metavar="REASON",
        help="run nothing: write the report of a run that ended so, from its journal",
    )
    parser.add_argument(
        "--device",
        type=_device,
        metavar="N",
        help="number of the device, as torch counts, or `all`: the default of --full",
    )
    parser.add_argument(
        "--runner",
        type=Path,
        metavar="DIR",
        help="take pytest from here, not the environment",
    )
    return parser.parse_args(argv)


def _device(word: str) -> str:
    if word != "all" and not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is neither a number nor `all`")
    return word


def main(argv: list[str], *, worker: Path = WORKER) -> int:
    """Run the suite and write its report; return the exit code."""
    options = parse(argv)
    try:
        expect = expectation.read(options.expect)
    except expectation.BadExpect as error:
        print(f"smoke: {error}", file=sys.stderr)  # noqa: T201 - a separate program
        return 2
    # Windows removes no file that a worker still has open, which may have been ended a moment ago.
    with tempfile.TemporaryDirectory(
        prefix="smoke-", ignore_cleanup_errors=True
    ) as folder:
        run = Run(options, Path(folder), worker)
        document = run.document(expect, run.to_the_end())
    report.write(options.report, json.dumps(document, indent=1) + "\n")
    return exit_code(document)


def exit_code(document: dict[str, Any]) -> int:
    """Return the exit code of a report, and name what is missing."""
    missing = [entry["id"] for entry in document["not_run"] if entry["required"]]
    if missing:
        print(f"smoke: required and not run: {', '.join(missing)}", file=sys.stderr)  # noqa: T201
    if document["broken"]:
        print(f"smoke: {document['broken']}", file=sys.stderr)  # noqa: T201
        return 3
    if any(entry["outcome"] == "failed" for entry in document["checks"]):
        return 1
    return 3 if missing else 0


def unknown_checks(names: list[str]) -> list[str]:
    """Return what is neither a check nor an area of checks."""
    known = {check.id for check in declared(check_files())} | {IMPORT["id"]}
    known |= {name.partition(".")[0] for name in known}
    return sorted(set(names) - known)


class Run:
    """One run of the suite, with as many workers as it takes."""

    def __init__(self, options: argparse.Namespace, folder: Path, worker: Path) -> None:
        self.journal = Journal(options.journal or folder / "journal.jsonl")
        self._log = folder / "worker.log"
        self._limit: float = options.limit
        device = options.device or ("all" if options.full else "0")
        self._every = device == "all"
        self._first = 0 if self._every else int(device)
        self._size = -1
        self._printed = 0
        self._worker = worker
        self._options = options
        self._clock = time.monotonic()
        self._load = MachineLoad()
        self._asked = {
            "expect": str(options.expect),
            "journal": str(self.journal.path),
            "full": options.full,
            "only": options.only,
            "runner": str(options.runner or ""),
        }

    @property
    def devices(self) -> tuple[int, ...]:
        """The numbers of the devices that are to be checked, as far as they are known yet."""
        count = self.journal.last("count") if self._every else None
        return (self._first, *range(1, count or 1))

    def to_the_end(self) -> str:
        """Check one device after the other; return why the suite broke, "" if it did not."""
        if self._options.ended:
            return str(self._options.ended)
        if unknown := unknown_checks(self._options.only):
            return f"no such check: {', '.join(unknown)}"
        # Each in its own process: a driver that fails on one device spoils its process.
        try:
            broken = self._one_device(self._first)
            for index in self.devices[1:]:
                broken = broken or self._one_device(index)
        except Exception as error:  # noqa: BLE001 - what is known by then is written all the same
            return f"the supervisor failed: {type(error).__name__}: {error}"
        return broken or ""

    def document(self, expect: expectation.Expect, broken: str) -> dict[str, Any]:
        """Return the report of what the journal knows; whatever else is required is missing."""
        checks = declared(check_files())
        options = self._options
        only = frozenset(options.only)
        plan = Plan(options.full, only, self.devices, reused(expect))
        devices = report.devices(self.journal)
        first = [facts for facts in devices if facts["index"] == plan.devices[0]]
        operators: set[str] = set()
        for event in self.journal.events():
            operators.update(event.get("operators", ()))
        return {
            "schema": SCHEMA,
            "suite": "full" if options.full else "quick",
            "target": expect.target,
            "python": platform.python_version(),
            "torch": self.journal.last("torch"),
            "device": first[0] if first else {},
            **self._times(),
            "checks": self.journal.results(),
            "not_run": missing(self.journal, checks, plan),
            "devices": devices,
            "operators": sorted(operators),
            "broken": broken,
        }

    def _times(self) -> dict[str, Any]:
        """Return when the run was started, its seconds and the load meanwhile."""
        events = self.journal.events()
        started, seconds = time.time(), 0.0
        load: dict[str, float] = {}
        if not self._options.ended:
            seconds = time.monotonic() - self._clock
            started, load = started - seconds, self._load.since_start()
        elif events:
            started = events[0]["at"]
            seconds = events[-1]["at"] - started
        return {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
            "seconds": round(seconds, 2),
            "load": load,
        }

    def _one_device(self, index: int) -> str | None:
        """Start workers until one has finished."""
        asked = {**self._asked, "device": index, "other": index != self._first}
        argv = [sys.executable, "-I", "-u", str(self._worker), json.dumps(asked)]
        while True:
            code, silent = self._one_worker(argv)
            running = self.journal.running()
            if running is None:
                return self._broken(code)
            finding = (
                child_process.hung(silent, step=running.step)
                if code is None
                else child_process.died(code, self._output(), step=running.step)
            )
            self.journal.write(result=report.failed(running, finding))
            self._print_results()

    def _broken(self, code: int | None) -> str | None:
        if reason := self.journal.last("broken"):
            return str(reason)
        if code not in ENDED_WELL:
            return f"the worker ended with {code}:\n{self._output()[-800:]}"
        return None if self.journal.results() else "no check was run"

    def _one_worker(self, argv: list[str]) -> tuple[int | None, float]:
        """Run one worker; return what `patience.wait` returns of it."""
        with self._log.open("wb") as output:
            child = child_process.start(argv, output, leader=True)
            try:
                return patience.wait(child, self._limit, self._has_grown)
            finally:
                child_process.stop_group(child)

    def _has_grown(self) -> bool:
        """Return whether the journal has: a slow check that journals its steps is not hung."""
        before, self._size = self._size, self.journal.size()
        if before != self._size:
            self._print_results()
        return before != self._size

    def _print_results(self) -> None:
        """Print one line for each check that has ended since the last call."""
        results = self.journal.results()
        for result in results[self._printed :]:
            print(report.line(result), flush=True)  # noqa: T201
        self._printed = len(results)

    def _output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
