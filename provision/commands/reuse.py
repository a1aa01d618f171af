"""Which results of an earlier build are still valid, so that a small change need not run all checks.

One rule: what a build proved stays valid while nothing that it had is gone or changed, but for pure
Python that nothing else names, and what was added is pure Python that no start of Python or torch
runs. In doubt all checks are run.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from provision.commands.basis import CHANGED, LAYERS, PURE, Basis
from provision.core.errors import ToolError
from provision.core.project import Project
from provision.report.history import history
from provision.report.layers import changed_layers
from provision.report.model import Check, Report, read_report


@dataclass(frozen=True, slots=True)
class Standing:
    """An earlier build, and what is different now."""

    report: Report
    gone: frozenset[str]  # distributions that it had, and that are absent or others now
    added: frozenset[str]
    # Checks that the target requires no more than it did then.
    excused: tuple[str, ...] = ()

    def reusable(self, requirements: Collection[str]) -> dict[str, list[str]]:
        """Return what the suite may leave out: checks, and imports of what the spec requires."""
        imported = {*requirements} & {*self.report.imported} - self.gone
        passed = [result.id for result in self._results if not result.finding]
        return {"reused": [*passed, *self.excused], "imported": sorted(imported)}

    @property
    def _results(self) -> list[Check]:
        return [*self.report.checks, *self.report.reused]

    def is_whole(self, lock: str | None, requirements: Collection[str]) -> bool:
        """Whether it was of the very same environment, and found nothing: no check is run then."""
        if self.gone or self.added or self.report.lock != lock:
            return False
        if not {*requirements} <= {*self.report.imported}:
            return False
        return not any(result.finding for result in self._results)


def standing(project: Project, target: str, now: Basis) -> Standing | str:
    """Return the earlier build whose results are still valid, or why there is none.

    Without any report, which a first build has not, that is "".
    """
    reports, why = _proving(project, target)
    builds = [report for report in reports if report.basis]
    if not builds:
        if reports and not why:
            why = "no earlier build ran the checks"
        return why
    alike = [_beside(report, now) for report in builds if report.basis == now.digest]
    if not alike:
        return _other_basis(builds[0], now)
    pure = [one for one in alike if not _impure(one, now)]
    if not pure:
        return _more_than_python(_impure(alike[0], now))
    # What is gone has to be looked for in all that is installed, what was added has not.
    nearest = min(pure, key=lambda one: (len(one.gone), len(one.added)))
    named = _named(nearest, now)
    if named:
        return named
    if now.in_suite(_words(nearest.added, now.closures)):
        return nearest
    excused = [entry.id for entry in nearest.report.not_run if not entry.required]
    return replace(nearest, excused=tuple(excused))


def _proving(project: Project, target: str) -> tuple[list[Report], str]:
    """Return the reports since one that proves nothing or cannot be read, and that one's fault.

    The newest is the first.
    """
    reports = list[Report]()
    for path in reversed(history(project, target)):
        try:
            report = read_report(path)
        except ToolError:
            return reports, f"the report {path.name} cannot be read"
        if not report.proves:
            return reports, f"no build has proved it since the run {report.shortfall}"
        reports.append(report)
    return reports, ""


def _other_basis(last: Report, now: Basis) -> str:
    """Return what is another, of all that is no distribution, than for the last build."""
    since = f"changed since the build of {last.started}"
    if not last.parts:
        return f"{since}: an earlier version of Provision made it, and kept no list of what counts"
    others = []
    for change in changed_layers(last, dict(now.layers), None):
        if change.layer != "lock":
            others.append(str(change))
    for name in sorted(last.parts.keys() | now.parts.keys()):
        if name != LAYERS and last.parts.get(name) != now.parts.get(name):
            others.append(name)
    return f"{since}: {'; '.join(others)}"


def _more_than_python(names: Collection[str]) -> str:
    verb = "are" if len(names) > 1 else "is"
    return f"{', '.join(sorted(names))} changed, and {verb} more than Python that others import"


def _beside(report: Report, now: Basis) -> Standing:
    before, after = report.closures, now.closures
    gone = set()
    for name, text in before.items():
        if text == CHANGED or after.get(name) != text:
            gone.add(name)
    added = after.keys() - before.keys()
    return Standing(report, frozenset(gone), frozenset(added))


def _impure(one: Standing, now: Basis) -> set[str]:
    """Return what differs and is more than pure Python, before or now."""
    impure = set()
    for closures in (one.report.closures, now.closures):
        for name in (one.gone | one.added) & closures.keys():
            if PURE not in closures[name]:
                impure.add(name)
    return impure


def _named(one: Standing, now: Basis) -> str:
    """Return that something names what is gone or another now; "" if nothing does."""
    if not one.gone:
        return ""
    words = _words(one.gone, one.report.closures) | _words(one.gone, now.closures)
    namer = now.named(one.gone, words)
    if not namer:
        return ""
    which = ", ".join(sorted(one.gone))
    if len(one.gone) > 1:
        which = f"one of {which}"
    return f"{which} was changed or removed, and {namer} names it"


def _words(names: Collection[str], closures: Mapping[str, str]) -> set[str]:
    """Return distributions and the modules of those that are pure."""
    words = set(names)
    for name in closures.keys() & names:
        words.update(closures[name].partition(PURE)[2].split())
    return words
