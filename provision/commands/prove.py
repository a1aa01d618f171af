"""The verb ``smoke``: run the checks and compare the report with the last good one."""

import os

from provision.commands import smoke
from provision.commands.current import hold_current, require_current
from provision.commands.smoke import SmokeRequest
from provision.core.errors import UsageError
from provision.core.process import Run
from provision.core.progress import Progress
from provision.environment.manifest import Generation, mark_verified
from provision.lockfile.pip import Lock, read_lock
from provision.report.history import baseline, last_report
from provision.report.regressions import SmokeResult, SmokeSkipped, changed_layers, compare_reports


def unchanged(request: SmokeRequest, progress: Progress) -> SmokeSkipped | None:
    """Return the last verdict if neither this host nor the lock changed since; None otherwise."""
    lock = _own_lock(request, require_current(request.project, request.target.name))
    device = request.device or "0"
    last = last_report(request.project, request.target.name, progress.note, device)
    if last is None or changed_layers(last, request.layers, lock.digest):
        return None
    return SmokeSkipped(request.target.name, last.started, len(last.failed) + len(last.missing))


def _own_lock(request: SmokeRequest, now: Generation) -> Lock:
    """Return the lock that a generation was built from; UsageError if there is another one now."""
    lock = read_lock(request.project.lock(request.target.name))
    if now.record.lock != lock.digest:
        raise UsageError.of("older-lock", target=request.target.name)
    return lock


def prove(request: SmokeRequest, run: Run, progress: Progress) -> SmokeResult:
    """Check a target's current generation; it becomes ``proven`` if it owes nothing more."""
    now, held = hold_current(request.project, request.target.name)
    try:
        lock = _own_lock(request, now)
        report = smoke.smoke(request, smoke.from_generation(now.folder, lock), run, progress)
    finally:
        if held is not None:
            os.close(held)
    # A shared installation belongs to its administrator: the report alone says what was seen.
    if request.suite != "health" and report.proves and os.access(now.folder, os.W_OK):
        mark_verified(now)
    before = baseline(request.project, request.target.name, report, progress.note)
    return SmokeResult(report, compare_reports(before, report) if before else None)
