"""Check one environment: expectation, run, report."""

import datetime as dt
import json
import os
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from provision.catalog.devices import read_peaks
from provision.commands.basis import LAYERS, Basis
from provision.commands.expectation import expectation, fallback_of_caller
from provision.commands.machine import host_of_checks
from provision.commands.reuse import Standing, standing
from provision.commands.subject import Subject
from provision.commands.suite import (
    SmokeRequest,
    require_device,
    run_suite,
    suite_environment,
    with_causes,
)
from provision.core.errors import ToolError
from provision.core.filesystem import write_atomic
from provision.core.output import write_output
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.text import json_text
from provision.environment.seal import read_seal
from provision.environment.stamp import stamp
from provision.report.history import new_report, suite_digest
from provision.report.junit import MARK, junit_xml
from provision.report.model import SCHEMA, Check, Report, read_report, sealed

PAUSE = 5.0  # seconds until a speed is measured again: a neighbour's burst may be over
# No check of a device reads them: those of the terminal and the session, of uv and its network,
# and the folder of temporary files, for which the checks get their own.
_VOLATILE = {"TERM", "COLUMNS", "NO_COLOR", "CI", "XDG_RUNTIME_DIR", "TMPDIR"}
_VOLATILE |= {"SSL_CERT_FILE", "SSL_CERT_DIR"}
_OF_UV = "UV_"
# What torch.compile and Triton start from PATH.
_COMPILERS = (
    "cc",
    "c++",
    "gcc",
    "g++",
    "clang",
    "clang++",
    "icx",
    "icpx",
    "nvcc",
    "ld",
)
# Expectations by distribution, which are compared one by one.
_BY_NAME = {"packages", "requirements", "forbid"}
# Expectations that come from the catalog, or from it and this machine.
_OF_CATALOG = {"intel_devices", "driver_verdict", "peaks"}

# What results rest on, given the facts of target and host; see provision.commands.basis.
BasisOf = Callable[[Mapping[str, Any]], Basis]


@dataclass(frozen=True, slots=True)
class Kept:
    """A report, and its file; None where it is of somebody else's environment."""

    report: Report
    path: Path | None

    def updated(self, junit: Path | None, **changes: Any) -> "Kept":  # noqa: ANN401
        """Return it with changed parts, and write them into its files."""
        assert self.path is not None  # noqa: S101 - only those of ours are compared
        document = json.loads(self.path.read_text(encoding="utf-8")) | changes
        return _written(self.path, document, junit)


def check(
    request: SmokeRequest,
    subject: Subject,
    run: Run,
    progress: Progress,
    basis_of: BasisOf | None = None,
) -> Kept:
    """Run the suite in an environment; the report of one of ours is kept, below its target.

    With ``basis_of``, of an environment whose every file has just been found as locked, results
    of the last build may be reused. Of a suite that broke, what is known is kept; see `require_end`.
    """
    if request.scope not in ("0", "all"):
        require_device(request, subject, run)
    expected = _expected(request, subject)
    made_with = _made_with(request, subject)
    rests_on = dict[str, Any]()
    earlier: Standing | None = None
    required = expected["requirements"]
    if basis_of:
        basis = basis_of(_facts(request, subject, expected))
        rests_on["basis"] = basis.digest
        rests_on["parts"] = basis.parts
        rests_on["closures"] = basis.closures
        rests_on["imported"] = required
        outcome = standing(request.project, request.target.name, basis)
        if isinstance(outcome, Standing):
            earlier = outcome
            expected["earlier"] = earlier.reusable(required)
        elif outcome:
            progress.step(f"all quick checks run: {outcome}")
    if earlier and earlier.is_whole(subject.lock, required):
        document = _nothing_run(earlier)
    else:
        document = run_suite(request, subject, expected, run, progress)
    document = _completed(request, subject, document) | rests_on
    for name, digest in _made_with(request, subject).items():
        document[name] = digest if digest == made_with[name] else ""
    return _keep(request, subject, with_reused(document, earlier))


def _made_with(request: SmokeRequest, subject: Subject) -> dict[str, str]:
    """Return the digests of the suite's and the environment's files at this moment."""
    digests = {"files": suite_digest(request.project), "tree": "", "stamp": ""}
    # Only a full run is evidence, and on a network file system a stamp takes seconds.
    if subject.tree and request.suite == "full":
        digests["stamp"] = stamp(subject.prefix)
        seal = read_seal(subject.prefix)
        # As its build hashed them, or else nobody knows what it has.
        if seal and seal.stamp == digests["stamp"]:
            digests["tree"] = subject.tree
    return digests


def _nothing_run(earlier: Standing) -> dict[str, Any]:
    """Return the document of a run that has nothing to do: all results of another are reused."""
    document = earlier.report.model_dump(mode="json", exclude={"schema_version"})
    for result in (*document["checks"], *document["reused"]):
        left_out = {"id": result["id"], "title": result["title"]}
        left_out |= {"required": False, "reason": "reused"}
        document["not_run"].append(left_out)
    return document | {
        "schema": SCHEMA,
        "started": f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}",
        "seconds": 0.0,
        "checks": [],
        "load": {},
        "compared": "",
    }


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
    names = {identifier.partition("@")[0] for identifier in checks}
    try:
        report = run_some(request, subject, sorted(names), run, progress)
    except (ToolError, ValidationError) as error:
        progress.note(f"it could not be measured again: {error}")
        return ()
    if report.broken:
        reason = report.broken.partition("\n")[0]
        progress.note(f"it could not be measured again: {reason}")
    return report.checks


def run_some(
    request: SmokeRequest,
    subject: Subject,
    only: Sequence[str],
    run: Run,
    progress: Progress,
) -> Report:
    """Run some checks in an environment, and return their report, which is not stored."""
    expected = _expected(request, subject)
    document = run_suite(request, subject, expected, run, progress, only=only)
    document = _completed(request, subject, document)
    return Report.model_validate({"schema_version": SCHEMA} | document)


def _expected(request: SmokeRequest, subject: Subject) -> dict[str, Any]:
    project, target = request.project, request.target
    host = host_of_checks(project) if target.hardware.driver else None
    expected = expectation(target, subject.versions, project.catalog, host)
    if subject.lock:  # the spec may have got others since it was built
        built = subject.versions.keys() & expected["requirements"]
        expected["requirements"] = sorted(built)
    else:  # somebody else's is taken as it is
        expected["foreign"] = True
        expected["python"] = subject.minor or target.python
    if request.suite != "quick":  # which measures no share of a peak
        expected["peaks"] = read_peaks(project.catalog)
    if settings := fallback_of_caller(target, os.environ):
        expected["fallback"] = settings
    if request.soak:
        expected["soak"] = request.soak
    if request.group:
        expected["group"] = request.group.facts
    return expected


def _facts(
    request: SmokeRequest, subject: Subject, expected: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a device's results rest on besides packages, interpreter and suite, by name."""
    variables = suite_environment(request.target, subject)
    if os.name == "posix":  # Windows searches PATH for libraries as well
        variables["PATH"] = _compilers_of(variables.get("PATH", ""))
    facts: dict[str, Any] = {LAYERS: request.layers}
    for name, value in variables.items():
        if name not in _VOLATILE and not name.startswith(_OF_UV):
            facts[f"variable {name}"] = value
    spec, catalog = {}, {}
    for name, value in expected.items():
        if name == "fallback":
            facts["variables that leave work to the CPU"] = value
        elif name in _OF_CATALOG:
            catalog[name] = value
        elif name not in _BY_NAME:
            spec[name] = value
    return facts | {"spec": spec, "catalog": catalog}


def _compilers_of(search_path: str) -> str:
    """Return the folders of a search path that have a compiler.

    Others come and go with the caller: pyenv's ``python3`` adds the folder of its Python.
    """
    folders: list[str] = []
    for folder in dict.fromkeys(search_path.split(os.pathsep)):
        for name in _COMPILERS:
            # Unlike `Path.is_file`, it says no of a folder that this user may not search.
            if os.path.isfile(os.path.join(folder, name)):  # noqa: PTH113, PTH118
                folders.append(folder)
                break
    return os.pathsep.join(folders)


def _completed(
    request: SmokeRequest, subject: Subject, document: dict[str, Any]
) -> dict[str, Any]:
    """Return the suite's document with what only the toolkit has."""
    node = os.environ.get("SLURMD_NODENAME") or os.environ.get("NODE_NAME", "")
    checks = with_causes(
        document["checks"], request.target.name, foreign=not subject.lock
    )
    return document | {
        "suite": request.suite,
        "asked": request.scope,
        "checks": checks,
        "accelerator": request.target.accelerator,
        "host": platform.node(),
        "node": node,  # its name in a scheduler
        "stack": request.layers,
        "lock": subject.lock,
    }


def with_reused(document: dict[str, Any], standing: Standing | None) -> dict[str, Any]:
    """Return a report with the results of an earlier one that the suite left out."""
    if standing is None:
        return document
    earlier = standing.report.model_dump(mode="json")
    results = {}
    for result in (*earlier["checks"], *earlier["reused"]):
        result.setdefault("ran", earlier["started"])
        results[result["id"]] = result
    excused = {old["id"]: old for old in earlier["not_run"] if not old["required"]}
    reused, others = [], []
    for entry in document.get("not_run", ()):
        identifier = entry["id"]
        if entry["reason"] != "reused":
            others.append(entry)
        elif identifier in results:
            reused.append(results[identifier])
        elif identifier in excused:
            others.append(excused[identifier])
        else:  # a suite that leaves out more than it may must not be green
            others.append(entry | {"required": True})
    for key in ("torch", "device", "devices"):
        document[key] = document.get(key) or earlier[key]
    return document | {"reused": reused, "not_run": others}


def _keep(request: SmokeRequest, subject: Subject, document: dict[str, Any]) -> Kept:
    """Write a report below its target, and as JUnit XML; somebody else's is not kept."""
    if subject.lock:
        path = new_report(request.project, request.target.name, request.suite)
        return _written(path, document, request.junit)
    report = Report.model_validate({"schema_version": SCHEMA} | document)
    _write_junit(report, request.junit)
    return Kept(report, None)


def _written(path: Path, document: dict[str, Any], junit: Path | None) -> Kept:
    write_atomic(path, json_text(sealed(document)))
    report = read_report(path)
    _write_junit(report, junit)
    return Kept(report, path)


def _write_junit(report: Report, junit: Path | None) -> None:
    if junit:
        write_output(junit, junit_xml(report), MARK)


def require_end(kept: Kept, subject: Subject) -> None:
    """Raise ToolError, with what is known and what is missing, if the suite broke."""
    report = kept.report
    if not report.broken:
        return
    cause, *lines = report.broken.splitlines()
    missing = ", ".join(entry.id for entry in report.missing) or "none"
    lines.append(f"{len(report.checks)} checks ended; not run: {missing}")
    if kept.path:
        lines.append(f"what is known is in {kept.path}")
    if subject.lock:
        lines.append(f"{report.target} is unproven: {report.shortfall}")
    raise ToolError(
        f"the smoke suite of {report.target} ended early",
        evidence="\n".join(lines),
        cause=cause,
        remedy=f"`provision doctor --python {subject.python}` looks for the cause",
    )
