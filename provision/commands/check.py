"""Check one environment: expectation, run, report."""

import json
import os
import platform
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from provision.catalog.devices import read_peaks
from provision.commands.carry import basis_of, distributions_of, standing
from provision.commands.expectation import expectation, fallback_of_caller
from provision.commands.machine import this_host
from provision.commands.subject import Subject
from provision.commands.suite import (
    SuiteOrder,
    node_name,
    require_device,
    run_suite,
    suite_environment,
    with_causes,
)
from provision.core.errors import ToolError
from provision.core.filesystem import write_atomic
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.core.text import json_text
from provision.lockfile.pip import Lock
from provision.report.history import new_report, suite_digest
from provision.report.junit import junit_xml
from provision.report.model import Check, Report, read_report
from provision.spec.model import Target

PAUSE = 5.0  # seconds until a speed is measured again: a neighbour's burst may be over
# Of the terminal and the session: no check of a device reads them.
_VOLATILE = {"TERM", "COLUMNS", "NO_COLOR", "CI", "TMPDIR", "XDG_RUNTIME_DIR"}


@dataclass(frozen=True, slots=True)
class SmokeRequest:
    """What to check."""

    project: Project
    target: Target
    layers: dict[str, str]  # of this host; see provision.host.model.host_layers()
    suite: str = "quick"  # or `full`, all checks; or `health`, those of the hardware
    soak: float | None = None  # seconds for which the load is held, instead of a few
    device: str = ""  # a number as torch counts, `all`, or the default of the suite
    junit: Path | None = None  # where to write JUnit XML as well
    fail_if_slower: bool = False  # count a fall in speed as a failure

    @property
    def scope(self) -> str:
        """The number of the device that is checked, or `all`."""
        return self.device or ("0" if self.suite == "quick" else "all")


@dataclass(frozen=True, slots=True)
class Kept:
    """A report, and its file; None where it is of somebody else's environment."""

    report: Report
    path: Path | None

    def updated(self, junit: Path | None, **changes: Any) -> "Kept":  # noqa: ANN401
        """Return it with changed parts, and write them into its files."""
        if self.path is None:
            return self
        document = json.loads(self.path.read_text(encoding="utf-8")) | changes
        write_atomic(self.path, json_text(document))
        kept = Kept(read_report(self.path), self.path)
        kept.write_junit(junit)
        return kept

    def write_junit(self, path: Path | None) -> None:
        """Write the report as JUnit XML, where that is wanted."""
        if path:
            write_atomic(path, junit_xml(self.report))


def check(
    request: SmokeRequest,
    subject: Subject,
    run: Run,
    progress: Progress,
    verified: Lock | None = None,
) -> Kept:
    """Run the suite in an environment; the report of one of ours is kept, below its target.

    ``verified`` is the lock that every file has just been found equal to: results of the last
    build may stand then; see `provision.commands.carry`.

    Of a suite that did not come to its end, what is known is kept; see `require_end`.
    """
    project, target = request.project, request.target
    with scratch() as folder:
        environment = suite_environment(target, subject, folder)
        if request.scope not in ("0", "all"):
            require_device(request.scope, target, subject, environment, run)
        expected = _expected(request, subject)
        last, facts = None, dict[str, Any]()
        if verified:
            host = request.layers | _stable(environment)
            last, facts = _reusable(project, subject, verified, expected, host)
        if last:
            passed = [
                one.id for one in (*last.checks, *last.carried) if not one.finding
            ]
            expected["earlier"] = {"settled": passed}
        order = SuiteOrder(request.suite, request.scope, (), environment, folder)
        document = run_suite(
            project, subject, expected, order, run=run, progress=progress
        )
    document = _completed(request, subject, document) | facts
    return _keep(request, subject, with_reused(document, last))


def measure_again(
    request: SmokeRequest,
    subject: Subject,
    checks: Collection[str],
    run: Run,
    progress: Progress,
) -> tuple[Check, ...]:
    """Run some checks once more, in a fresh process some seconds later; none if that breaks."""
    progress.note(f"slower than usual: measuring {', '.join(sorted(checks))} again")
    time.sleep(PAUSE)
    only = sorted({identifier.partition("@")[0] for identifier in checks})
    with scratch() as folder:
        environment = suite_environment(request.target, subject, folder)
        order = SuiteOrder(request.suite, request.scope, only, environment, folder)
        expected = _expected(request, subject)
        try:
            document = run_suite(
                request.project, subject, expected, order, run=run, progress=progress
            )
            if document.get("broken"):
                reason = document["broken"].partition("\n")[0]
                progress.note(f"it could not be measured again: {reason}")
            document = _completed(request, subject, document)
            return Report.model_validate({"schema_version": 1} | document).checks
        except (ToolError, ValidationError) as error:
            progress.note(f"it could not be measured again: {error}")
            return ()


def _expected(request: SmokeRequest, subject: Subject) -> dict[str, Any]:
    project, target = request.project, request.target
    host = this_host(project) if target.hardware.driver else None
    expected = expectation(target, subject.versions, project.catalog, host)
    if subject.lock:  # the spec may have got others since it was built
        known = subject.versions.keys() & expected["requirements"]
        expected["requirements"] = sorted(known)
    if request.suite != "quick":  # which measures no share of a peak
        expected["peaks"] = read_peaks(project.catalog)
    if settings := fallback_of_caller(target, os.environ):
        expected["fallback"] = settings
    if request.soak:
        expected["soak"] = request.soak
    return expected


def _stable(environment: dict[str, str]) -> dict[str, str]:
    volatile = set(_VOLATILE)
    if sys.platform != "win32":  # which searches PATH for libraries, too
        volatile.add("PATH")
    return {key: environment[key] for key in environment if key not in volatile}


def _reusable(
    project: Project,
    subject: Subject,
    lock: Lock,
    expected: dict[str, Any],
    host: dict[str, str],
) -> tuple[Report | None, dict[str, Any]]:
    """Return the report whose device checks stand, and what decides it for the next build."""
    by_name = ("packages", "requirements", "forbid")
    facts = {key: value for key, value in expected.items() if key not in by_name}
    basis = basis_of(subject.prefix, lock, project, facts | host)
    installed = distributions_of(subject.prefix, lock)
    last = standing(project, expected["target"], subject.prefix, basis, installed)
    return last, {"basis": basis, "closures": installed}


def _completed(
    request: SmokeRequest, subject: Subject, document: dict[str, Any]
) -> dict[str, Any]:
    """Return the suite's document with what only the toolkit knows."""
    return document | {
        "suite": request.suite,
        "asked": request.scope,
        "checks": with_causes(document["checks"]),
        "accelerator": request.target.accelerator,
        "host": platform.node(),
        "node": node_name(),
        "stack": request.layers,
        "lock": subject.lock,
        "files": suite_digest(request.project),
    }


def with_reused(document: dict[str, Any], last: Report | None) -> dict[str, Any]:
    """Return a report with the results of an earlier one that the suite left out."""
    if last is None:
        return document
    earlier = last.model_dump(mode="json")
    results = {old["id"]: old | {"ran": last.started} for old in earlier["checks"]}
    results.update((old["id"], old) for old in earlier["carried"])
    reused: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for entry in document.get("not_run", ()):
        if entry["reason"] != "carried":
            others.append(entry)
        elif entry["id"] in results:
            reused.append(results[entry["id"]])
        else:  # a suite that leaves out more than it may must not be green
            others.append(entry | {"owed": True})
    for key in ("device", "devices"):
        document[key] = document.get(key) or earlier[key]
    return document | {"carried": reused, "not_run": others}


def _keep(request: SmokeRequest, subject: Subject, document: dict[str, Any]) -> Kept:
    """Write a report below its target, and as JUnit XML; somebody else's is not kept."""
    with scratch() as folder:
        path = None
        if subject.lock:
            path = new_report(request.project, request.target.name, request.suite)
        written = path or folder / "foreign.json"
        write_atomic(written, json_text(document))
        kept = Kept(read_report(written), path)
    kept.write_junit(request.junit)
    return kept


def require_end(kept: Kept, subject: Subject) -> None:
    """Raise ToolError, with what is known and what is missing, if the suite broke."""
    report = kept.report
    if not report.broken:
        return
    missing = ", ".join(entry.id for entry in report.missing)
    known = f"{len(report.checks)} checks ended; not run: {missing or 'none'}"
    lines = [*report.broken.splitlines()[1:], known]
    if kept.path:
        lines.append(f"what is known is in {kept.path}")
    if subject.lock:
        lines.append(f"{report.target} is unproven: {report.shortfall}")
    raise ToolError(
        f"the smoke suite of {report.target} did not come to an end",
        evidence="\n".join(lines),
        cause=report.broken.partition("\n")[0],
        remedy=f"`provision doctor --python {subject.python}` looks for the cause",
    )
