"""``python -I smoke/run.py EXPECT.json REPORT.json``: the supervisor.

The checks run in a worker process. When it dies or hangs, the running check fails with that as its
finding, and a fresh worker continues with the rest. This process never imports torch: a driver that
crashes or hangs must not take the report with it.
Exit codes: 0 every owed check passed or warned, 1 some failed, 2 bad expectation or usage, 3 the
suite itself broke, or an owed check was not run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# At the end of sys.path: a module of the environment with the same name must win, as for its users.
if str(HERE.parent) not in sys.path:
    sys.path.append(str(HERE.parent))
sys.dont_write_bytecode = True

from smoke.engine import child_process, patience, report  # noqa: E402
from smoke.engine import expect as expectation  # noqa: E402 - the path comes first
from smoke.engine.check_files import check_files, declared  # noqa: E402
from smoke.engine.journal import Journal  # noqa: E402
from smoke.engine.owed import Plan, carried, missing  # noqa: E402

SCHEMA = 1  # of the report
WORKER = HERE / "engine" / "worker.py"
# Exit codes of pytest: all passed, some failed, no check left. The last is no error by itself: a
# worker that died can have had the last one. What is owed and was not run is looked up afterwards.
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
        "--junit", type=Path, metavar="FILE", help="write JUnit XML as well"
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
        print(f"smoke: {error}", file=sys.stderr)  # noqa: T201 - a program of its own
        return 2
    began, clock = time.gmtime(), time.monotonic()
    # Windows removes no file that a worker still has open, which may have been ended a moment ago.
    with tempfile.TemporaryDirectory(
        prefix="smoke-", ignore_cleanup_errors=True
    ) as folder:
        run = Run(options, Path(folder), worker)
        broken = run.to_the_end()
        checks = declared(check_files())
        plan = Plan(
            options.full, frozenset(options.only), run.devices, carried(expect, checks)
        )
        found, events = report.devices(run.journal), run.journal.events()
        document = {
            "schema": SCHEMA,
            "suite": "full" if options.full else "quick",
            "target": expect.target,
            "python": platform.python_version(),
            "torch": run.journal.last("torch"),
            "device": next(
                (facts for facts in found if facts["index"] == plan.devices[0]), {}
            ),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", began),
            "seconds": round(time.monotonic() - clock, 2),
            "checks": run.journal.results(),
            "not_run": missing(run.journal, checks, plan),
            "devices": found,
            "operators": sorted(
                {name for each in events for name in each.get("operators", ())}
            ),
        }
    report.write(options.report, json.dumps(document, indent=1) + "\n")
    if options.junit:
        report.write(options.junit, report.junit(document))
    if broken:
        print(f"smoke: {broken}", file=sys.stderr)  # noqa: T201
        return 3
    if any(entry["outcome"] == "failed" for entry in document["checks"]):
        return 1
    if owed := [entry["id"] for entry in document["not_run"] if entry["owed"]]:
        print(f"smoke: owed and not run: {', '.join(owed)}", file=sys.stderr)  # noqa: T201
        return 3
    return 0


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

    def to_the_end(self) -> str | None:
        """Check one device after the other; return why the suite broke, None if it did not."""
        # Each in a process of its own: a driver that fails on one device spoils its process.
        broken = self._one_device(self._first)
        return broken or next(
            filter(None, map(self._one_device, self.devices[1:])), None
        )

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
