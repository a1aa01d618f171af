"""The verb ``smoke``: subject, expectation, run, report, comparison."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from provision.commands.check import Kept, check, measure_again, require_end
from provision.commands.current import hold_current, require_current
from provision.commands.generations import compare_drifted
from provision.commands.subject import Subject, from_current
from provision.commands.suite import SmokeRequest
from provision.core.errors import Exit
from provision.core.findings import Level
from provision.core.process import Run
from provision.core.progress import Progress
from provision.environment.manifest import Generation, mark_proof
from provision.lockfile.pip import read_lock
from provision.report.history import baseline, last_report
from provision.report.layers import changed_layers
from provision.report.limits import REPEATS
from provision.report.measures import with_better_speeds
from provision.report.model import Report, Word
from provision.report.regressions import SLOWED, Comparison, compare_reports

_EXITS = {"passed": Exit.OK, "slower": Exit.SLOWER}


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """The report of a run, and its comparison with earlier ones; None for the first run."""

    report: Report
    """The report of this run."""
    comparison: Comparison | None
    """The comparison with earlier reports; null for the first run."""


@dataclass(frozen=True, slots=True)
class SmokeSkipped:
    """The verdict of the last report, which holds because nothing changed since."""

    target: str
    """Name of the target."""
    since: str
    """When the last report was started, ISO 8601, UTC."""
    failed: int
    """How many checks failed then."""
    word: Word
    """The word for that run."""


def exit_code(word: str) -> Exit:
    """Return the exit code of a run by its word."""
    return _EXITS.get(word, Exit.FINDINGS)


def smoke(request: SmokeRequest, run: Run, progress: Progress) -> SmokeResult:
    """Check a target's current generation, and compare the report with the earlier ones.

    ToolError: the suite did not come to its end; the generation is unproven from then on.
    """
    with current_subject(request, progress) as subject:
        kept = check(request, subject, run, progress)
        if kept.report.broken:
            _record_proof(request, kept.report)
            require_end(kept, subject)
        kept, comparison = _compared(request, subject, kept, run, progress)
    if comparison and request.fail_if_slower:
        comparison = _strict(comparison)
    word = comparison.word if comparison else "passed"
    kept = kept.updated(request.junit, compared=word)
    _record_proof(request, kept.report)
    return SmokeResult(kept.report, comparison)


def _compared(
    request: SmokeRequest, subject: Subject, kept: Kept, run: Run, progress: Progress
) -> tuple[Kept, Comparison | None]:
    """Compare a report with the earlier ones; what seems slower is measured again before."""
    earlier = baseline(request.project, request.target.name, kept.report, progress.note)
    if not earlier:
        return kept, None
    report, comparison = compare_confirmed(
        request, subject, kept.report, earlier, run=run, progress=progress
    )
    if report != kept.report:
        checks = [result.model_dump(mode="json") for result in report.checks]
        kept = kept.updated(request.junit, checks=checks)
    return kept, comparison


def compare_confirmed(
    request: SmokeRequest,
    subject: Subject,
    report: Report,
    earlier: Sequence[Report],
    *,
    run: Run,
    progress: Progress,
) -> tuple[Report, Comparison]:
    """Compare a report with earlier ones; return it with the speeds that were measured again."""
    comparison = compare_reports(earlier, report)
    for _ in range(REPEATS):
        if not comparison.suspects:
            break
        again = measure_again(request, subject, comparison.suspects, run, progress)
        if not again:
            break
        checks = with_better_speeds(report.checks, again)
        report = report.model_copy(update={"checks": checks})
        comparison = compare_reports(earlier, report)
    return report, comparison


def unchanged(
    request: SmokeRequest, progress: Progress, max_age: float | None = None
) -> SmokeSkipped | None:
    """Return the last verdict of the suite if neither this host nor the lock changed since.

    Not one that is older than ``max_age``, in seconds.

    None otherwise, and a step says why: the suite never ran here, for example, or something
    failed in another one after it.
    """
    target = request.target.name
    current = require_current(request.project, target)
    device = request.device or "0"
    last = last_report(request.project, target, progress.note, device, request.suite)
    if last is None:
        why = f"no {request.suite} run is known here"
    else:
        why = _why_again(request, current, last, max_age)
    if last is None or why:
        progress.step(f"the checks run: {why}")
        return None
    bad = len(last.failed) + len(last.missing)
    return SmokeSkipped(target, last.started, bad, last.word)


def _why_again(
    request: SmokeRequest, current: Generation, last: Report, max_age: float | None
) -> str:
    """Return why the last verdict of the suite does not hold any more, or nothing."""
    if last.broken:
        return "the last run did not come to its end"
    if max_age is not None and last.age > max_age:
        return "the last run is older than --max-age"
    device = request.device or "0"
    latest = last_report(request.project, request.target.name, device=device)
    if latest and latest.started > last.started and (latest.failed or latest.broken):
        return "a later run failed"
    # Of a shared installation the record stays as it was built, whatever a user's run proved.
    ours = os.access(current.folder, os.W_OK)
    # Checks that a build left out are not among those of the health.
    left_out = current.record.proof == "skipped" and request.suite != "health"
    open_proof = left_out or current.record.proof == "unproven"
    if last.proves and ours and open_proof:
        why = current.record.reason or "its build left the checks out"
        return f"the environment is not proven: {why}"
    changes = changed_layers(last, request.layers, current.record.lock)
    return "; ".join(map(str, changes))


@contextmanager
def current_subject(request: SmokeRequest, progress: Progress) -> Iterator[Subject]:
    """Hold the current generation while it is checked."""
    current, descriptor = hold_current(request.project, request.target.name)
    lock = read_lock(request.project.lock(request.target.name))
    try:
        if request.suite == "full" and os.access(current.folder, os.W_OK):
            # Evidence is of files that were hashed, also after the folder was copied or restored.
            target = request.target.name
            why = compare_drifted(current, request.project, target, progress)
            if why:
                progress.note(f"{current.folder.name} is not stamped again: {why}")
        yield from_current(current, lock, progress)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _strict(comparison: Comparison) -> Comparison:
    """Return a comparison in which a fall in speed is an error."""
    findings = list(comparison.findings)
    for index, finding in enumerate(findings):
        if finding.code == SLOWED:
            findings[index] = replace(finding, level=Level.ERROR)
    return replace(comparison, findings=tuple(findings))


def _record_proof(request: SmokeRequest, report: Report) -> None:
    """Note in the generation's record whether it is proven by this run, and else why not."""
    current = require_current(request.project, request.target.name)
    if request.suite == "health" or current.record.lock != report.lock:
        return
    # A shared installation belongs to its administrator: the report alone says what was seen.
    if not os.access(current.folder, os.W_OK):
        return
    reason = report.shortfall
    mark_proof(current, "unproven" if reason else "proven", reason)
