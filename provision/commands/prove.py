"""The verb ``smoke``: run the checks and compare the report with the last good one."""

import os
from dataclasses import replace

from packaging.utils import canonicalize_name

from provision.commands import smoke
from provision.commands.current import hold_current, require_current
from provision.commands.smoke import SmokeRequest, Subject
from provision.core.process import Run
from provision.core.progress import Progress
from provision.environment.manifest import Generation, mark_verified
from provision.lockfile.pip import Lock, read_lock
from provision.report.history import baseline, last_report
from provision.report.regressions import (
    SmokeResult,
    SmokeSkipped,
    changed_layers,
    compare_reports,
)


def unchanged(request: SmokeRequest, progress: Progress) -> SmokeSkipped | None:
    """Return the last verdict if neither this host nor the lock changed since; None otherwise."""
    now = require_current(request.project, request.target.name)
    last = last_report(
        request.project, request.target.name, progress.note, request.device or "0"
    )
    if last is None or changed_layers(last, request.layers, now.record.lock):
        return None
    return SmokeSkipped(
        request.target.name, last.started, len(last.failed) + len(last.missing)
    )


def _subject(now: Generation, lock: Lock, progress: Progress) -> Subject:
    subject = smoke.from_generation(now.folder, lock)
    if now.record.lock == lock.digest:
        return subject
    # After `rollback`, or before a build of what was locked since: it is what is in use.
    progress.note(
        f"{lock.folder.name} was built from an older lock; it is checked as it was built"
    )
    had = (
        folder.removesuffix(".dist-info").rsplit("-", 1)
        for folder in now.record.distributions
    )
    versions = {str(canonicalize_name(name)): version for name, version in had}
    return replace(subject, versions=versions, lock=now.record.lock)


def prove(request: SmokeRequest, run: Run, progress: Progress) -> SmokeResult:
    """Check a target's current generation; it becomes ``proven`` if it owes nothing more."""
    now, held = hold_current(request.project, request.target.name)
    try:
        subject = _subject(
            now, read_lock(request.project.lock(request.target.name)), progress
        )
        report = smoke.smoke(request, subject, run, progress)
    finally:
        if held is not None:
            os.close(held)
    # A shared installation belongs to its administrator: the report alone says what was seen.
    if request.suite != "health" and report.proves and os.access(now.folder, os.W_OK):
        mark_verified(now)
    before = baseline(request.project, request.target.name, report, progress.note)
    return SmokeResult(report, compare_reports(before, report) if before else None)
