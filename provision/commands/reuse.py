"""Which results of an earlier build are still valid, so that a small change need not run all checks.

One rule: what a build proved stays valid while nothing that it had is gone or changed, but for pure
Python that nothing else names, and what was added is pure Python that no start of Python or torch
runs. In doubt all checks are run.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from provision.commands.basis import CHANGED, PURE, Basis
from provision.core.errors import ToolError
from provision.core.project import Project
from provision.report.history import history
from provision.report.model import Report, read_report


@dataclass(frozen=True, slots=True)
class Standing:
    """An earlier build, and what is different now."""

    report: Report
    gone: frozenset[str]  # distributions that it had, and that are absent or others now
    added: frozenset[str]
    excused: tuple[
        str, ...
    ] = ()  # checks that the target requires no more than it did then

    def reusable(self, requirements: Collection[str]) -> dict[str, list[str]]:
        """Return what the suite may leave out: checks, and imports of what the spec requires."""
        imported = {*requirements} & {*self.report.imported} - self.gone
        return {
            "reused": [*self._passed, *self.excused],
            "imported": sorted(imported),
        }

    @property
    def _passed(self) -> list[str]:
        results = (*self.report.checks, *self.report.reused)
        return [result.id for result in results if not result.finding]

    def is_whole(self, lock: str | None, requirements: Collection[str]) -> bool:
        """Whether it was of the very same environment, and found nothing: no check is run then."""
        if self.gone or self.added or self.report.lock != lock:
            return False
        every = {*requirements} <= {*self.report.imported}
        results = len(self.report.checks) + len(self.report.reused)
        return every and len(self._passed) == results


def standing(project: Project, target: str, now: Basis) -> Standing | None:
    """Return the earlier build whose results are still valid, or None."""
    builds = [report for report in _proving(project, target) if report.basis]
    alike = [_beside(report, now) for report in builds if report.basis == now.basis]
    pure = [one for one in alike if _is_pure(one, now)]
    # What is gone has to be looked for in all that is installed, what was added has not.
    nearest = min(pure, key=lambda one: (len(one.gone), len(one.added)), default=None)
    if nearest is None or _is_named(nearest, now):
        return None
    if now.in_suite(_words(nearest.added, now.closures)):
        return nearest
    left = (entry.id for entry in nearest.report.not_run if not entry.required)
    return replace(nearest, excused=tuple(left))


def _proving(project: Project, target: str) -> Iterator[Report]:
    """Yield the reports since one that proves nothing or cannot be read, the newest first."""
    for path in reversed(history(project, target)):
        try:
            report = read_report(path)
        except ToolError:
            return
        if not report.proves:
            return
        yield report


def _beside(report: Report, now: Basis) -> Standing:
    before, after = report.closures, now.closures
    gone = [n for n, text in before.items() if text == CHANGED or after.get(n) != text]
    return Standing(report, frozenset(gone), frozenset(after.keys() - before.keys()))


def _is_pure(one: Standing, now: Basis) -> bool:
    """Whether all that differs is pure Python, before and now."""
    texts = [one.report.closures[name] for name in one.gone]
    for name in (one.gone | one.added) & now.closures.keys():
        texts.append(now.closures[name])
    return all(PURE in text for text in texts)


def _is_named(one: Standing, now: Basis) -> bool:
    """Whether something names what is gone or another now."""
    if not one.gone:
        return False
    before, after = one.report.closures, now.closures
    return now.named(one.gone, _words(one.gone, before) | _words(one.gone, after))


def _words(names: Collection[str], closures: Mapping[str, str]) -> set[str]:
    """Return distributions and the modules of those that are pure."""
    words = set(names)
    for name in closures.keys() & names:
        words.update(closures[name].partition(PURE)[2].split())
    return words
