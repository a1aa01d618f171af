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
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

HERE = Path(__file__).resolve().parent
# At the end of sys.path: a module of the environment with the same name must win, as for its users.
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))
sys.dont_write_bytecode = True

from smoke.engine import expect as expectation  # noqa: E402 - the path comes first
from smoke.engine import files, patience, report, side_by_side  # noqa: E402
from smoke.engine.check import IMPORT  # noqa: E402
from smoke.engine.check_files import check_files, declared  # noqa: E402
from smoke.engine.journal import Entry, Journal  # noqa: E402
from smoke.engine.machine_load import MachineLoad  # noqa: E402
from smoke.engine.plan import Plan, missing, reused  # noqa: E402
from smoke.engine.workers import Workers  # noqa: E402

SCHEMA = 2  # of the report
LIMIT = 120.0  # seconds of silence until a check counts as hung, unless it computes
NO_GROUP = (
    "no group: start it under torchrun, srun or mpirun, two processes or more, as in "
    "`srun --ntasks-per-node=1 provision gate TARGET --group`"
)
WORKER = HERE / "engine" / "worker.py"


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
        "--journal", type=Path, metavar="FILE", help="keep the journal here"
    )
    parser.add_argument(
        "--ended",
        default="",
        metavar="REASON",
        help="run nothing: write the report of a run that ended so, from its journal",
    )
    parser.add_argument(
        "--runner",
        type=Path,
        metavar="DIR",
        help="take pytest from here, not the environment",
    )
    _add_workers(parser)
    return parser.parse_args(argv)


def _add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which devices are checked, and how."""
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        help="seconds of silence until a check counts as hung, unless it computes",
    )
    parser.add_argument(
        "--device",
        type=_device,
        metavar="N",
        help="number of the device, as torch counts, or `all`: the default of --full",
    )
    parser.add_argument(
        "--side-by-side",
        action="store_true",
        help="check several devices at once, as many as cores and memory allow",
    )


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
    if not expect.in_job and any(name.startswith("group") for name in options.only):
        print(f"smoke: {NO_GROUP}", file=sys.stderr)  # noqa: T201
        return 2
    with files.scratch_folder() as folder:
        run = Run(options, Path(folder), worker)
        document = run.document(expect, run.to_the_end())
    files.write(options.report, json.dumps(document, indent=1) + "\n")
    return exit_code(document)


def exit_code(document: Entry) -> int:
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
    known = {IMPORT["id"]}
    known.update(check.id for check in declared(check_files()))
    known |= {name.partition(".")[0] for name in known}
    return sorted(set(names) - known)


class Run:
    """One run of the suite, with as many workers as it takes."""

    def __init__(self, options: argparse.Namespace, folder: Path, worker: Path) -> None:
        self.journal = Journal(options.journal or folder / "journal.jsonl")
        self._folder = folder
        device = options.device or ("all" if options.full else "0")
        self._every = device == "all"
        self._first = 0 if self._every else int(device)
        self._at_once = side_by_side.at_once() if options.side_by_side else 1
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
        """Check all devices; return why the suite broke, "" if it did not."""
        if self._options.ended:
            return str(self._options.ended)
        if unknown := unknown_checks(self._options.only):
            return f"no such check: {', '.join(unknown)}"
        try:
            return self._all_devices()
        except Exception as error:  # noqa: BLE001 - what is known by then is written all the same
            return f"the supervisor failed: {type(error).__name__}: {error}"

    def _all_devices(self) -> str:
        """Check each device in its own process: a driver that fails on one spoils its process."""
        begun, running = 0, set[Future[str]]()
        broken = ""
        # The first one tells how many there are.
        while running or (begun < len(self.devices) and not broken):
            while len(running) < self._at_once and begun < len(self.devices):
                workers = self._workers(self.devices[begun])
                running.add(side_by_side.begin(workers.to_the_end))
                begun += 1
            done, running = wait(running, patience.TICK, FIRST_COMPLETED)
            for device in done:
                reason = device.result()
                broken = broken or reason
            self._print_results()
        return broken

    def _workers(self, index: int) -> Workers:
        asked = {
            **self._asked,
            "device": index,
            "other": index if index != self._first else 0,
            "alone": self._at_once == 1,
        }
        # Otherwise each would use all cores for its products.
        if index != self._first and self._at_once > 1:
            asked["threads"] = max(1, side_by_side.cores() // self._at_once)
        log = self._folder / f"worker{index}.log"
        return Workers(self._worker, asked, log, self._options.limit)

    def document(self, expect: expectation.Expect, broken: str) -> Entry:
        """Return the report of what the journal knows; whatever else is required is missing."""
        full, only = self._options.full, frozenset(self._options.only)
        plan = Plan(full, only, self.devices, reused(expect))
        devices = report.devices(self.journal)
        operators: set[str] = set()
        for event in self.journal.events():
            operators.update(event.get("operators", ()))
        return {
            "schema": SCHEMA,
            "suite": "full" if full else "quick",
            "target": expect.target,
            "python": platform.python_version(),
            "torch": self.journal.last("torch"),
            "device": devices.get(self._first, {}),
            **self._times(),
            "checks": self._results(),
            "not_run": missing(self.journal, declared(check_files()), plan),
            "devices": list(devices.values()),
            "operators": sorted(operators),
            "broken": broken,
        }

    def _times(self) -> Entry:
        """Return when the run was started, its seconds and the load meanwhile."""
        events = self.journal.events()
        started, seconds = time.time(), 0.0
        load = {}
        if not self._options.ended:
            seconds = time.monotonic() - self._clock
            started -= seconds
            load = self._load.since_start()
        elif events:
            started = events[0]["at"]
            seconds = events[-1]["at"] - started
        return {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
            "seconds": round(seconds, 2),
            "load": load,
        }

    def _results(self) -> list[Entry]:
        """Return the results in the order in which they ended, of one device after the other."""
        results = self.journal.results()
        if self._every:
            results.sort(key=_device_of)
        return results

    def _print_results(self) -> None:
        """Print one line for each check that has ended since the last call."""
        results = self.journal.results()
        for result in results[self._printed :]:
            print(report.line(result), flush=True)  # noqa: T201
        self._printed = len(results)


def _device_of(result: Entry) -> int:
    return int(result["id"].partition("@")[2] or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
