"""The verb ``evidence``: sign what was proven here, verify others' files, say which are stale."""

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provision.commands.current import require_current
from provision.commands.machine import read_layers
from provision.commands.verify import verify_current
from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.output import begins_with, require_replaceable, write_output
from provision.core.project import Project
from provision.environment.stamp import stamp
from provision.lockfile.pip import read_lock
from provision.report.evidence import (
    MARK,
    Statement,
    require_proof,
    sign,
    statement,
    trusted_keys,
    verified,
)
from provision.report.history import history, suite_digest
from provision.report.layers import changed_layers
from provision.report.model import Report, is_sealed, read_report
from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class Evidence:
    """One file of evidence."""

    file: Path
    """Path of the file."""
    state: Literal["valid", "stale", "refused"]
    """`valid`; `stale` where the target has another lock now, or the suite is another; `refused`."""
    reason: str = ""
    """Why it is not valid; "" where it is."""
    target: str = ""
    """Name of the target; empty where the file cannot be read."""
    key: str = ""
    """Name of the key's file, without its ending; in `check` its fingerprint where nobody named it."""
    device: str = ""
    """As torch describes it."""
    driver: str = ""
    """Version; `-` for a CPU."""
    day: str = ""
    """When it was proven, ISO 8601."""
    checks: int = 0
    """How many checks it has."""


def emit(
    project: Project,
    target: Target,
    *,
    file: Path,
    key: Path,
    passphrase: Callable[[], str],
) -> Evidence:
    """Write signed evidence of a target's last full report.

    UsageError if that proves nothing, or if what it was made with is not what is here now.
    """
    require_replaceable(file, begins_with(MARK))
    path, report = _last_full(project, target.name)
    require_proof(report)
    changes = list(_changes(project, target.name, path, report))
    if changes:
        raise UsageError(
            f"the last full report of {target.name} is no evidence",
            evidence="\n".join(changes),
            cause="evidence says what was run, and this changed since or was not seen then",
            remedy=f"`provision build {target.name}` and `provision smoke {target.name} --full`",
        )
    content = statement(report)
    write_output(file, sign(content, key, passphrase), MARK)
    return evidence_of(file, content, key.stem, "")


def _last_full(project: Project, target: str) -> tuple[Path, Report]:
    """Return the last report of the full suite about a target's lock; UsageError without any."""
    lock = read_lock(project.lock(target)).digest
    reports: dict[Path, Report] = {}
    for path in history(project, target):
        if path.stem.endswith("-full"):
            with contextlib.suppress(ToolError):  # see _changes()
                reports[path] = read_report(path)
    newest = max(reports, key=lambda path: _when(reports[path]), default=None)
    if newest is None or reports[newest].lock != lock:
        raise UsageError(
            f"no report of the full suite is about the lock of {target}",
            remedy=f"`provision build {target}` and `provision smoke {target} --full` make one",
        )
    return newest, reports[newest]


def _changes(
    project: Project, target: str, path: Path, report: Report
) -> Iterator[str]:
    """Yield what is another than when a report was made, and what it does not tell."""
    if not is_sealed(path):
        yield f"{path.name} was edited, or an earlier version wrote it"
        return
    yield from _later_failures(project, target, path, report)
    current = require_current(project, target)
    record = current.record
    if record.lock != report.lock or record.proof != "proven":
        why = record.reason or "it is another generation"
        yield f"the environment in use is not proven by this lock: {why}"
    if report.files != suite_digest(project):
        yield "the suite of checks is another, or changed while it ran"
    if not report.tree or report.stamp != stamp(current.folder):
        yield "files of the environment changed since it was built, or since the checks began"
    for layer in changed_layers(report, read_layers(project), report.lock):
        yield f"the host changed: {layer}"
    verification = verify_current(project, target, deep=True)
    for finding in verification.findings:
        yield f"{finding.symptom}: {', '.join(finding.evidence)}"
    if verification.tree != report.tree:
        yield "the environment's files are others than those that were checked"


def _later_failures(
    project: Project, target: str, path: Path, report: Report
) -> Iterator[str]:
    """Yield the runs after a report that prove nothing, of any suite."""
    for file in history(project, target):
        try:
            other = read_report(file)
        except ToolError:
            if file.name > path.name:
                yield f"{file.name}, which is later, cannot be read"
            continue
        later = (_when(other), file.name) > (_when(report), path.name)
        if later and other.lock == report.lock and other.shortfall:
            yield f"a later run of the {other.suite} suite: {other.shortfall}"


def _when(report: Report) -> dt.datetime:
    return dt.datetime.fromisoformat(report.started).astimezone(dt.UTC)


def judge(project: Project, files: Sequence[Path], keys: Path) -> list[Evidence]:
    """Return the state of each file of evidence."""
    if not files:
        raise UsageError(
            "there is no evidence to verify",
            remedy="name the files, or put them into docs/evidence",
        )
    trusted = trusted_keys(keys)
    suite = suite_digest(project)
    evidence: list[Evidence] = []
    file_of_run: dict[str, Path] = {}
    for file in files:
        try:
            key, content = verified(file, trusted)
        except ToolError as error:
            evidence.append(Evidence(file, "refused", error.evidence))
            continue
        first = file_of_run.setdefault(content.predicate.report, file)
        if first == file:
            stale = staleness(project, content, suite)
            evidence.append(evidence_of(file, content, key, stale))
        else:
            reason = f"it is of the same run as {first}, which counts once"
            evidence.append(Evidence(file, "refused", reason))
    return evidence


def staleness(project: Project, content: Statement, suite: str) -> str:
    """Return which of the lock and the suite changed since a statement; "" where neither did."""
    (subject,) = content.subject
    try:
        now = read_lock(project.lock(subject.name)).digest
    except SpecError:
        return f"there is no lock of {subject.name} here"
    if now != subject.digest["sha256"]:
        return f"{subject.name} has another lock now"
    if content.predicate.checks_digest != suite:
        return "it was made with another suite of checks than this version's"
    return ""


def evidence_of(file: Path, content: Statement, key: str, stale: str) -> Evidence:
    """Return what a valid or stale file of evidence says."""
    run = content.predicate
    return Evidence(
        file,
        "stale" if stale else "valid",
        stale,
        content.subject[0].name,
        key,
        device=str(run.device.get("name", "")),
        driver=str(run.device.get("driver") or "-"),
        day=run.started[:10],
        checks=len(run.checks),
    )
