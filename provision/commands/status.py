"""The verb ``targets``: the state of each target's lock, environment and last smoke run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from provision.catalog.devices import read_devices
from provision.commands.freshness import staleness
from provision.commands.known_wrong import pinned_torch, rows_here, rows_of
from provision.commands.machine import this_host
from provision.core.errors import ProvisionError, SpecError
from provision.core.platforms import this_platform
from provision.core.project import Project
from provision.environment.manifest import Generation, Proof, Record, current_generation
from provision.host.known_wrong import rows_of_torch
from provision.lockfile.pip import PIP_LAYER, Lock, read_lock
from provision.report.history import last_report
from provision.report.model import Report
from provision.spec.model import Target
from provision.spec.reader import load_targets, misnamed_specs, target_names

T = TypeVar("T")
UNREADABLE: Final = "unreadable"
Unreadable = Literal["unreadable"]
LockState = Literal["fresh", "stale", "none", "unreadable"]


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The state of one target, as texts to be shown."""

    name: str
    """Name of the target."""
    platform: str
    """conda's name of it, or `unreadable` where the spec is."""
    status: Literal["supported", "legacy", "unlocked", "unreadable"]
    """`supported`, `legacy` or `unlocked`, or `unreadable`."""
    lock: LockState
    """Whether spec and catalog changed since the lock was made."""
    built: Proof | Literal["no", "unreadable"]
    """`no`, or the proof in the record of the current generation."""
    proof: str
    """The same, with what the last report of its lock says: `proven (27 of 27)`."""
    smoke: str
    """The verdict and the day of the last report."""
    summary: str
    """What the target is for, or what is wrong with its spec."""
    known_wrong: tuple[str, ...] = ()
    """Rows of the known wrong numbers that its locked torch has on machines of the target."""
    known_wrong_here: tuple[str, ...] = ()
    """Those that apply to this machine."""
    exclude: tuple[str, ...] = ()
    """Distributions that `[pip] exclude` leaves out."""


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """The state of all targets of a project."""

    rows: tuple[TargetStatus, ...]
    """One per target, by name."""


def target_statuses(project: Project) -> ProjectStatus:
    """Return the state of every target; what is wrong with a spec stands for its summary."""
    names = target_names(project.specs)
    targets, broken = load_targets(project.specs, names)
    rows = [_row(project, target.name, target) for target in targets]
    for name, error in broken.items():
        rows.append(_row(project, name, error))
    for name, error in misnamed_specs(project.specs).items():
        rows.append(_unreadable(name, error))
    rows.sort(key=lambda row: row.name)
    return ProjectStatus(tuple(rows))


def _row(project: Project, name: str, target: Target | SpecError) -> TargetStatus:
    generation = _readable(lambda: current_generation(project.environments(name)))
    record = generation.record if isinstance(generation, Generation) else generation
    report = _readable(lambda: last_report(project, name))
    built: Proof | Literal["no", "unreadable"] = "no"
    if isinstance(record, Record):
        built = record.proof
    elif record:
        built = record
    locked = _readable(lambda: read_lock(project.lock(name)))
    proof = _proof(record, locked, report) or built
    smoke = _smoke(report)
    if isinstance(target, SpecError):
        return _unreadable(name, target, built, proof, smoke)
    lock = _readable(lambda: _lock(project, target, locked))
    torch = _torch(target, locked)
    return TargetStatus(
        name,
        target.platform,
        target.status,
        lock,
        built,
        proof,
        smoke,
        target.summary,
        known_wrong=tuple(rows_of(target, torch, project.catalog)),
        known_wrong_here=_known_wrong_here(project, target, torch) if record else (),
        exclude=target.pip.exclude,
    )


def _unreadable(
    name: str,
    error: SpecError,
    built: Proof | Literal["no", "unreadable"] = "no",
    proof: str = "no",
    smoke: str = "none",
) -> TargetStatus:
    # Without the lines of the file, which have no place in a table.
    errors = error.what
    for line in error.evidence.splitlines():
        if not line.startswith(" "):
            errors += f"; {line}"
    return TargetStatus(
        name, UNREADABLE, UNREADABLE, UNREADABLE, built, proof, smoke, errors
    )


def _torch(target: Target, locked: Lock | Unreadable) -> str:
    """Return the locked torch, or where there is no lock the one that the spec requires."""
    if isinstance(locked, Lock):
        return locked.versions.get("torch", "")
    return pinned_torch(target)


def _known_wrong_here(project: Project, target: Target, torch: str) -> tuple[str, ...]:
    """Return the rows of this machine; only for an environment that is on it."""
    if target.platform != this_platform():
        return ()
    devices = read_devices(project.catalog)
    if not rows_of_torch(torch, target.accelerator, devices):
        return ()  # without a look at the machine, which can take seconds
    return rows_here(torch, target.accelerator, this_host(project), devices)


def _readable(read: Callable[[], T]) -> T | Unreadable:
    """Return what is read, or ``unreadable``: one broken file must not hide all other targets."""
    try:
        return read()
    except ProvisionError:
        return UNREADABLE


def _lock(project: Project, target: Target, lock: Lock | Unreadable) -> LockState:
    if not (project.lock(target.name) / PIP_LAYER).is_file():
        return "none"
    if isinstance(lock, str):
        return lock
    return "stale" if staleness(target, project.catalog, lock) else "fresh"


def _proof(
    record: Record | str | None, lock: Lock | str, report: Report | str | None
) -> str:
    """Return the proof of a record by the last report, if that is of its lock; "" if not."""
    if not isinstance(record, Record):
        return ""
    if isinstance(lock, Lock) and record.lock != lock.digest:
        return "from an older lock"
    if not isinstance(report, Report) or report.lock != record.lock:
        return ""
    if report.shortfall:
        return f"unproven: {report.shortfall}"
    if record.proof != "proven":
        return ""
    required = report.counts["required"]
    return f"proven ({required} of {required})"


def _smoke(report: Report | str | None) -> str:
    if not isinstance(report, Report):
        return report or "none"
    verdict = f"{len(report.failed)} failed" if report.failed else report.word
    return f"{verdict} {report.started[:10]}"
