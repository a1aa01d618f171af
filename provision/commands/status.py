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
    from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The state of one target, as texts to be shown."""

    name: str
    platform: str
    status: str
    lock: str
    built: str
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


def _smoke(project: Project, target: Target) -> str:
    try:
        report = smoke.last_report(project, target.name)
    except ProvisionError:
        return "unreadable"
    if report is None:
        return "none"
    verdict = f"{len(report.failed)} failed" if report.failed else "passed"
    return f"{verdict} {report.started[:10]}"
