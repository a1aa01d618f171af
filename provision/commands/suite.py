"""Run the suite of checks once: which checks each suite has, its options, and its time limits."""

import datetime as dt
import functools
import importlib.metadata
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.commands.follow import Follower
from provision.commands.launched import Launched
from provision.commands.subject import Subject
from provision.core.errors import ToolError, UsageError
from provision.core.limits import read_text
from provision.core.platforms import ACCELERATORS
from provision.core.process import Run, clean_environment, describe_exit
from provision.core.progress import Progress
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.core.variables import PROXIES
from provision.doctor import diagnose_evidence
from provision.doctor.targets import in_foreign, in_own_verbs
from provision.report.model import SCHEMA, read_report
from provision.spec.model import Target

# Seconds for one device. The suite ends what hangs; where every kernel is compiled at its
# first use, a healthy device takes most of this.
_TIMEOUT = {"quick": 1800, "full": 3600, "health": 1800, "gate": 300, "group": 900}
# Areas and checks of the full suite: those that ask the hardware itself, and those of seconds that
# tell whether a node is fit for a job.
ONLY = {
    "health": ("device.ready", "health", "transfer", "collective"),
    "gate": (
        "device.ready",
        "device.matmul",
        "device.family",
        "device.driver",
        "device.fallback",
        "health.errors",
        "health.bandwidth",
        "transfer.speed",
    ),
    "group": ("group",),
}
_MOST_DEVICES = 8  # of one machine; only the suite knows how many there are
# Exit codes of smoke/run.py: every required check passed, some failed.
_VERDICTS = (0, 1)
# Codes under which the suite reports an exception or a dead process, without a known cause.
_UNEXPLAINED = ("op-fails", "import-fails", "process-died")
_COUNT = "import sys, torch; print(getattr(torch, sys.argv[1]).device_count())"
Fit = Callable[[str, str], str]  # a remedy to an environment of a target
_ENDED_EARLY = "the suite ended before it could write a report"


@dataclass(frozen=True, slots=True)
class SmokeRequest:
    """What to check."""

    project: Project
    target: Target
    layers: dict[str, str]  # of this host; see provision.host.model.host_layers()
    suite: str = "quick"  # or `full`, all checks; or one of ONLY
    soak: float | None = None  # seconds for which the load is held, instead of a few
    device: str = ""  # a number as torch counts, `all`, or the default of the suite
    junit: Path | None = None  # where to write JUnit XML as well
    fail_if_slower: bool = False  # count a fall in speed as a failure
    group: Launched | None = None  # the job of which this process is one, for `group`

    @property
    def scope(self) -> str:
        """The number of the device that is checked, or `all`."""
        if self.device:
            return self.device
        return "0" if self.suite == "quick" else "all"

    def options(self, only: Sequence[str]) -> list[str]:
        """Return the options of smoke/run.py, for some checks or all of the suite."""
        words = ["--runner", str(runner_folder()), "--device", self.scope]
        if self.suite != "quick":
            words.append("--full")
        if self.suite == "gate":
            words.append("--side-by-side")
        for name in only or ONLY.get(self.suite, ()):
            words += ["--only", name]
        return words

    def timeout(self) -> float:
        """Return the seconds after which a run is ended."""
        seconds = _TIMEOUT[self.suite] + (self.soak or 0.0)
        return seconds * _MOST_DEVICES if self.scope == "all" else seconds


def suite_environment(target: Target, subject: Subject) -> dict[str, str]:
    """Return the variables of a run, but for its folder of temporary files."""
    variables = target.variables(subject.prefix) | {"PYTHONDONTWRITEBYTECODE": "1"}
    environment = clean_environment(prefix=subject.prefix, extra=variables)
    for name in environment.keys() & {*PROXIES, *map(str.lower, PROXIES)}:
        # The checks run the code of every package: of a proxy they get the address alone.
        scheme, separator, address = environment[name].rpartition("://")
        environment[name] = scheme + separator + address.rpartition("@")[2]
    return environment


def runner_folder() -> Path:
    """Return the folder of the toolkit's own pytest, which the suite imports from there."""
    return Path(str(importlib.metadata.distribution("pytest").locate_file("")))


def run_suite(
    request: SmokeRequest,
    subject: Subject,
    expected: Mapping[str, Any],
    run: Run,
    progress: Progress,
    *,
    only: Sequence[str] = (),
) -> dict[str, Any]:
    """Run the suite and return the document that it wrote; where it breaks, what is known."""
    with scratch() as folder:  # what a killed run leaves goes with it
        expect = folder / "expect.json"
        written = folder / "report.json"
        journal = folder / "journal.jsonl"
        expect.write_text(json.dumps(expected), encoding="utf-8")
        program = request.project.smoke / "run.py"
        argv: list[str | Path] = [subject.python, "-I", program, expect, written]
        argv += request.options(only)
        argv += ["--journal", journal]
        environment = suite_environment(request.target, subject)
        environment["TMPDIR"] = str(folder)
        if request.group:
            environment |= request.group.network
        start: Run = functools.partial(run, env=environment, cwd=folder)
        follower = Follower(journal, by_area=request.suite != "quick")
        progress.step(f"the {request.suite} checks of {request.target.name}", follower)
        try:
            broken = _run_program(start, argv, request.timeout(), written)
        except KeyboardInterrupt as ended:
            running = follower.running
            if running:
                ended.add_note(f"during {running}")
            raise
        progress.step("")
        if not written.is_file():
            # The supervisor itself died, or was ended: its journal tells what is known.
            with suppress(ToolError):
                start([*argv, "--ended", broken], timeout=60)
        return _document(written, request.target.name, broken)


def _run_program(
    start: Run, argv: Sequence[str | Path], timeout: float, written: Path
) -> str:
    """Run the suite's program; return how it broke, "" where it came to its end."""
    try:
        finished = start(argv, timeout=timeout)
    except ToolError as error:
        return error.what
    # An exception that nobody caught ends a program with 1, as failed checks do.
    if finished.returncode in _VERDICTS and written.is_file():
        return ""
    end = describe_exit(finished.returncode)
    return f"its process ended with {end}\n{finished.tail}"


def _document(written: Path, target: str, broken: str) -> dict[str, Any]:
    """Return what a run has written, with why it broke if it did."""
    try:
        document: dict[str, Any] = json.loads(read_text(written))
        read_report(written)
    except (OSError, ValueError, ToolError):
        broken = broken or _ENDED_EARLY
        document = _empty_document(target)
    if broken:
        known = document.get("broken", "")  # says more than an exit code
        document["broken"] = broken if known in broken else f"{known}\n{broken}"
    return document


def _empty_document(target: str) -> dict[str, Any]:
    """Return the document of a suite of which nothing is known."""
    return {
        "schema": SCHEMA,
        "target": target,
        "python": "",
        "torch": None,
        "device": {},
        "started": f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}",
        "seconds": 0.0,
        "checks": [],
    }


def require_device(request: SmokeRequest, subject: Subject, run: Run) -> None:
    """Raise UsageError if torch counts devices, and none of the number that is asked for."""
    device, target = request.device, request.target
    count = "1"
    # Devices that no variable selects have no numbers.
    if ACCELERATORS[target.accelerator].selectors:
        argv = [subject.python, "-I", "-c", _COUNT, target.accelerator]
        # Why a driver hangs, or there is no device, the suite tells.
        with suppress(ToolError):
            environment = suite_environment(target, subject)
            count = run(argv, env=environment, timeout=300).stdout
    if not count.strip().isdecimal() or not 0 < int(count) <= int(device):
        return
    last = "only device 0" if int(count) == 1 else f"devices 0 to {int(count) - 1}"
    raise UsageError(
        f"--device {device}: there is no such device of {target.name}",
        cause=f"torch finds {last}",
        remedy="name one of these, or `all`",
    )


def with_causes(
    checks: list[dict[str, Any]], target: str = "", *, foreign: bool = False
) -> list[dict[str, Any]]:
    """Return the checks of a report, each error that the doctor recognises with its cause.

    With the name of a target, remedies are for what was built for that, or for somebody else's.
    """
    fit: Fit = in_foreign if foreign else in_own_verbs
    explained = []
    for check in checks:
        finding = _with_cause(check["finding"], target, fit)
        explained.append(check | {"finding": finding})
    return explained


def _with_cause(
    finding: dict[str, Any] | None, target: str, fit: Fit
) -> dict[str, Any] | None:
    if not finding or finding["code"] not in _UNEXPLAINED:
        return finding
    diagnosis = diagnose_evidence([finding["symptom"], *finding["evidence"]])
    if not diagnosis:
        return finding
    # Symptom and evidence stay as the suite wrote them.
    remedy = diagnosis.remedy
    if target:
        remedy = fit(remedy, target)
    explained = {"code": diagnosis.code, "cause": diagnosis.cause, "remedy": remedy}
    return finding | explained
