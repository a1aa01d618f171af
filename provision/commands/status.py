"""The verb ``targets``: the state of each target's lock, environment and last smoke run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.commands import lock, smoke
from provision.core.errors import ProvisionError
from provision.environment.manifest import current_generation
from provision.lockfile.pip import PIP_LAYER, read_lock
from provision.spec.reader import load_spec, target_names

if TYPE_CHECKING:
    from provision.core.project import Project
    from provision.report.model import Report
    from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The state of one target, as texts to be shown.

    Attributes:
        built: ``no``, or the proof in the record of the current generation.
        proof: The same, with what the last report of its lock says: ``proven (27 of 27)``.
        smoke: The verdict and the day of the last report.
    """

    name: str
    platform: str
    status: str
    lock: str
    built: str
    proof: str
    smoke: str
    summary: str


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """The state of all targets of a project."""

    rows: tuple[TargetStatus, ...]


def target_statuses(project: Project) -> ProjectStatus:
    """Return the state of every target.

    Raises:
        SpecError: A spec has faults.
    """
    targets = [load_spec(project.specs / f"{name}.toml") for name in target_names(project.specs)]
    return ProjectStatus(tuple(_row(project, target) for target in targets))


def _row(project: Project, target: Target) -> TargetStatus:
    return TargetStatus(
        name=target.name,
        platform=target.platform,
        status=target.status,
        lock=_lock(project, target),
        built=_built(project, target),
        proof=_proof(project, target),
        smoke=_smoke(project, target),
        summary=target.summary,
    )


def _lock(project: Project, target: Target) -> str:
    if not (project.lock(target.name) / PIP_LAYER).is_file():
        return "none"
    try:
        found = read_lock(project.lock(target.name))
        return "stale" if lock.staleness(target, project.catalog, found) else "fresh"
    except ProvisionError:  # in each column: one broken file must not hide all other targets
        return "unreadable"


def _built(project: Project, target: Target) -> str:
    try:
        generation = current_generation(project.environments(target.name))
    except ProvisionError:
        return "unreadable"
    return generation.record.proof if generation else "no"


def _proof(project: Project, target: Target) -> str:
    built = _built(project, target)
    try:
        generation = current_generation(project.environments(target.name))
        report = smoke.last_report(project, target.name)
    except ProvisionError:
        return built
    if generation is None or report is None or report.lock != generation.record.lock:
        return built
    return proof_of(built, report)


def proof_of(built: str, report: Report) -> str:
    """Return a generation's proof with the counts of the last report of its lock."""
    counts = report.counts
    if not report.proves:
        ends = [f"{counts[end]} {end.replace('_', ' ')}" for end in ("failed", "not_run")
                if counts[end]]  # fmt: skip
        return f"unproven: {', '.join(ends)} of {counts['owed']}"
    if built != "proven":
        return built
    done = counts["passed"] + counts["warned"]
    return f"proven ({done} of {counts['owed']})"


def _smoke(project: Project, target: Target) -> str:
    try:
        report = smoke.last_report(project, target.name)
    except ProvisionError:
        return "unreadable"
    if report is None:
        return "none"
    verdict = f"{len(report.failed)} failed" if not report.proves else "passed"
    return f"{verdict} {report.started[:10]}"
