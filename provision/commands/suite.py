"""Run the suite of checks once, in a process of the environment's own Python."""

import datetime as dt
import functools
import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.commands.follow import Follower
from provision.commands.subject import Subject
from provision.core.errors import ToolError, UsageError
from provision.core.limits import read_text
from provision.core.process import Run, clean_environment, describe_exit
from provision.core.progress import Progress
from provision.core.project import Project
from provision.doctor import diagnose_evidence
from provision.report.model import read_report
from provision.spec.model import Target

# Seconds for one device. The suite ends what hangs by itself; where every kernel is compiled at its
# first use, a healthy device takes most of this.
_TIMEOUT = {"quick": 1800.0, "full": 3600.0, "health": 1800.0}
# What of the full suite asks the hardware itself: areas and checks.
_HEALTH = ("device.ready", "health", "transfer", "collective")
_MOST_DEVICES = 8  # of one machine; only the suite knows how many there are
_VERDICTS = (0, 1)  # exit codes of smoke/run.py: every owed check passed, some failed
# Codes under which the suite reports an exception or a dead process, of which it knows no cause.
_UNEXPLAINED = ("op-fails", "import-fails", "process-died")
_COUNT = "import sys, torch; print(getattr(torch, sys.argv[1]).device_count())"


def suite_environment(target: Target, subject: Subject, folder: Path) -> dict[str, str]:
    """Return the variables of a run; what a killed one leaves goes with the folder."""
    variables = target.variables(subject.prefix)
    variables |= {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(folder)}
    return clean_environment(prefix=subject.prefix, extra=variables)


def runner_folder() -> Path:
    """Return the folder of the toolkit's own pytest, which the suite imports from there."""
    return Path(str(importlib.metadata.distribution("pytest").locate_file("")))


@dataclass(frozen=True, slots=True)
class SuiteOrder:
    """Which checks are run, where, and in which folder and environment."""

    suite: str  # `quick`, `full` or `health`
    device: str  # a number, or `all`
    only: Sequence[str]  # these checks; empty for all of the suite
    environment: Mapping[str, str]
    folder: Path  # for the files between toolkit and suite

    def options(self) -> list[str]:
        """Return the options of smoke/run.py."""
        words = ["--runner", str(runner_folder()), "--device", self.device]
        if self.suite != "quick":
            words.append("--full")
        only = self.only
        if self.suite == "health" and not only:
            only = _HEALTH
        for name in only:
            words += ["--only", name]
        return words


def run_suite(
    project: Project,
    subject: Subject,
    expected: Mapping[str, Any],
    order: SuiteOrder,
    *,
    run: Run,
    progress: Progress,
) -> dict[str, Any]:
    """Run the suite and return the document that it wrote; where it breaks, what is known."""
    expect, written = order.folder / "expect.json", order.folder / "report.json"
    journal = order.folder / "journal.jsonl"
    expect.write_text(json.dumps(expected), encoding="utf-8")
    program = [subject.python, "-I", project.smoke / "run.py", expect, written]
    argv = [*program, *order.options(), "--journal", journal]
    start = functools.partial(run, env=order.environment, cwd=order.folder)
    timeout = _TIMEOUT[order.suite] + expected.get("soak", 0.0)
    if order.device == "all":
        timeout *= _MOST_DEVICES
    progress.step(
        f"the {order.suite} checks of {expected['target']}", Follower(journal)
    )
    ending = ""
    try:
        finished = start(argv, timeout=timeout)
        # An exception that nobody caught ends a program with 1, as failed checks do.
        if finished.returncode not in _VERDICTS or not written.is_file():
            end = describe_exit(finished.returncode)
            ending = f"its process ended with {end}\n{finished.tail}"
    except ToolError as error:
        ending = error.what
    progress.step("")
    if not written.is_file():
        # The supervisor itself died, or was ended: its journal tells what is known.
        ending = ending or "the suite ended before it could write a report"
        with suppress(ToolError):
            start([*argv, "--ended", ending], timeout=60)
    try:
        document: dict[str, Any] = json.loads(read_text(written))
        read_report(written)
    except (OSError, ValueError, ToolError):
        ending = ending or "the suite ended before it could write a report"
        document = _empty_document(expected["target"])
    if ending:
        own = document.get("broken", "")  # says more than an exit code
        document["broken"] = ending if own in ending else f"{own}\n{ending}"
    return document


def _empty_document(target: str) -> dict[str, Any]:
    """Return the document of a suite of which nothing is known."""
    now = dt.datetime.now(dt.UTC)
    return {
        "schema": 1,
        "target": target,
        "python": "",
        "torch": None,
        "device": {},
        "started": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "seconds": 0.0,
        "checks": [],
    }


def require_device(
    device: str,
    target: Target,
    subject: Subject,
    environment: Mapping[str, str],
    run: Run,
) -> None:
    """Raise UsageError if torch counts devices, and none of this number."""
    count = "1"
    if target.accelerator in ("cuda", "xpu"):
        argv = [subject.python, "-I", "-c", _COUNT, target.accelerator]
        # Why a driver hangs, or there is no device, the suite tells.
        with suppress(ToolError):
            count = run(argv, env=environment, timeout=300).stdout
    if not count.strip().isdecimal() or not 0 < int(count) <= int(device):
        return
    last = "only device 0" if int(count) == 1 else f"devices 0 to {int(count) - 1}"
    raise UsageError(
        f"--device {device}: there is no such device of {target.name}",
        cause=f"torch finds {last}",
        remedy="name one of these, or `all`",
    )


def with_causes(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the checks of a report, each error that the doctor recognises with its cause."""
    return [check | {"finding": _with_cause(check["finding"])} for check in checks]


def _with_cause(finding: dict[str, Any] | None) -> dict[str, Any] | None:
    if not finding or finding["code"] not in _UNEXPLAINED:
        return finding
    diagnosis = diagnose_evidence([finding["symptom"], *finding["evidence"]])
    if not diagnosis:
        return finding
    # Symptom and evidence stay as the suite wrote them.
    texts = {"cause": diagnosis.cause, "remedy": diagnosis.remedy}
    return finding | {"code": diagnosis.code} | texts


def node_name() -> str:
    """Return the name of this machine in a scheduler, "" outside one."""
    return os.environ.get("SLURMD_NODENAME") or os.environ.get("NODE_NAME", "")
