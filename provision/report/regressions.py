"""Compare a report with earlier ones: the layers of the host, then the result of each check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from provision.core.findings import Finding, described, worst_first

if TYPE_CHECKING:
    from provision.report.measures import Kind, Sample
    from provision.report.model import Check, Report
    from provision.report.trend import Fall
    from provision.report.verdict import Verdict

_finding = partial(described, Path(__file__).with_name("findings.toml"))


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A layer of the host, or the lock, before and after it changed; None where it is absent."""

    layer: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.layer}: {self.before or 'absent'} -> {self.after or 'absent'}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a report with the earlier ones of its target and device.

    ``since``: of the last report of its suite that fails no more, else of the last one; ISO 8601.
    """

    target: str
    since: str
    moves: tuple[LayerChange, ...]  # what changed on the host since then
    findings: tuple[Finding, ...]  # what is worse, vanished or healed; worst first
    compared: tuple[str, ...] = ()  # ids of the checks that have an earlier result
    new: tuple[str, ...] = ()  # of those that have none

    @property
    def bad(self) -> bool:
        """Whether anything is worse than it has been."""
        return any(finding.bad for finding in self.findings)


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """The report of a run, and its comparison with earlier ones; None for the first run."""

    report: Report
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class SmokeSkipped:
    """The verdict of the last report, which holds because nothing changed since."""

    target: str
    since: str
    failed: int


class _Result(NamedTuple):
    report: Report
    check: Check


def changed_layers(
    before: Report | Verdict, stack: dict[str, str], lock: str | None
) -> tuple[LayerChange, ...]:
    """Return which layers differ between a report and a machine as it is now."""
    # 16 digits tell two locks apart, and a person has to read them.
    old = before.stack | ({"lock": before.lock[:16]} if before.lock else {})
    new = stack | ({"lock": lock[:16]} if lock else {})
    layers = [*old, *(layer for layer in new if layer not in old)]
    moves = (LayerChange(layer, old.get(layer), new.get(layer)) for layer in layers)
    return tuple(move for move in moves if move.before != move.after)


def compare_reports(earlier: Sequence[Report], after: Report) -> Comparison:
    """Compare each check of a report with its results in comparable ones, oldest first."""
    same = [report for report in earlier if report.suite == after.suite]
    failing = {check.id for check in after.failed}
    no_worse = (
        old for old in reversed(same) if {check.id for check in old.failed} <= failing
    )
    standard = next(no_worse, earlier[-1])
    found = list(_Comparer(earlier, after).findings())
    known = {check.id for report in earlier for check in _ran(report)}
    ids = [check.id for check in _ran(after)]
    return Comparison(
        target=after.target,
        since=standard.started,
        moves=changed_layers(standard, after.stack, after.lock),
        findings=tuple(worst_first(found)),
        compared=tuple(name for name in ids if name in known),
        new=tuple(name for name in ids if name not in known),
    )


def _ran(report: Report) -> list[Check]:
    """Return the checks that came to a result; a blocked one says nothing about itself."""
    return [check for check in report.checks if not check.blocked]


class _Comparer:
    def __init__(self, earlier: Sequence[Report], after: Report) -> None:
        self._earlier = earlier
        self._after = after
        self._past: dict[str, list[_Result]] = {}
        for report in earlier:
            for check in _ran(report):
                self._past.setdefault(check.id, []).append(_Result(report, check))

    def findings(self) -> Iterator[Finding]:
        """Yield everything that differs."""
        yield from self._vanished()
        if blocked := [check.id for check in self._after.checks if check.blocked]:
            yield _finding("checks-blocked", ", ".join(blocked), count=len(blocked))
        for check in _ran(self._after):
            past = self._past.get(check.id, [])
            if past and check.outcome == "failed":
                yield self._failed(check, past)
            elif past:
                yield from self._turned(check, past[-1])
                yield from self._worse(check, past)

    def _vanished(self) -> Iterator[Finding]:
        """Yield the checks of this suite that ran earlier; a note after the first time."""
        now = {check.id for check in self._after.checks}
        reasons = {entry.id: f": {entry.reason}" for entry in self._after.not_run}
        # Asked for the same devices, too: of others, none has vanished.
        asked = self._after.suite, self._after.scope
        same = [
            report for report in self._earlier if (report.suite, report.scope) == asked
        ]
        last = {old.id: (report, old) for report in same for old in report.checks}
        for name in sorted(last.keys() - now):
            report, old = last[name]
            kind = "check-vanished" if report is same[-1] else "check-vanished-before"
            evidence = f"{old.title}; last run {report.started}"
            facts = {"reason": reasons.get(name, ""), "cause": self._cause(report)}
            yield _finding(kind, evidence, check=name, **facts)

    def _turned(self, check: Check, last: _Result) -> Iterator[Finding]:
        facts = {"check": check.id, "cause": self._cause(last.report)}
        if last.check.outcome == "passed" and check.outcome == "warned":
            yield _finding("check-warns", _told(check), **facts)
        if last.check.outcome == "failed":
            yield _finding("check-healed", _told(last.check), **facts)

    def _failed(self, check: Check, past: list[_Result]) -> Finding:
        good = [
            index for index, old in enumerate(past) if old.check.outcome != "failed"
        ]
        if good and good[-1] == len(past) - 1:
            cause = self._cause(past[-1].report)
            return _finding("check-broke", _told(check), check=check.id, cause=cause)
        first = past[good[-1] + 1 if good else 0].report
        since = first.started if good else f"{first.started}, the first report"
        cause = self._cause(past[good[-1]].report if good else first, until=first)
        facts = {"check": check.id, "since": since, "cause": cause}
        found = _finding("check-still-failing", _told(check), **facts)
        return replace(
            found, remedy=check.finding.remedy if check.finding else found.remedy
        )

    def _worse(self, check: Check, past: list[_Result]) -> Iterator[Finding]:
        # With those that warned: a card that is always slow must not be without a course.
        passed = [old for old in past if old.check.outcome != "failed"]
        if not passed:
            return
        # Imported here: most callers compare host layers only, without statistics.
        from provision.report.measures import kind_of, numbers_of, series  # noqa: PLC0415
        from provision.report.trend import judge  # noqa: PLC0415

        results = [*passed, _Result(self._after, check)]
        for name, number in numbers_of(check):
            if (kind := kind_of(name, number)) is None:
                continue
            course = series(results, name, kind, number.unit, number.limit)
            fall = judge([sample.point for sample in course], math.log(kind.tolerance))
            if fall and abs(number.value - _standard(fall, kind)) > kind.least:
                yield self._fell(check, name, kind, course, fall)

    def _fell(
        self, check: Check, name: str, kind: Kind, course: list[Sample], fall: Fall
    ) -> Finding:
        now, first = course[-1].number, course[fall.since].report
        unit = f" {now.unit.removeprefix('1')}".rstrip()
        reach = f"{'down' if kind.better > 0 else 'up'} to {ratio(fall.reach, kind)}"
        evidence = (
            f"{_standard(fall, kind):.4g}{unit} (best quarter of {len(course) - 1} runs) -> "
            f"{now.value:.4g}{unit}; {reach} is noise on this host"
        )
        if now.limit is not None:
            evidence += f"; the limit is {now.limit:.3g}"
        facts = {
            "check": check.id,
            "name": name,
            "ratio": ratio(fall.depth, kind),
            "since": "" if first is self._after else f", since {first.started}",
            "cause": self._cause(course[fall.since - 1].report, until=first),
        }
        found = _finding(kind.code, evidence, **facts)
        return (
            _finding("not-judged", evidence, symptom=found.symptom)
            if fall.doubtful
            else found
        )

    def _cause(self, before: Report, until: Report | None = None) -> str:
        """Name what changed since a report; else the last change that is known."""
        until = until or self._after
        if moved := changed_layers(before, until.stack, until.lock):
            return "; ".join(map(str, moved))
        nothing = "nothing that is recorded changed on this host: look at load, heat and power"
        known = [report for report in self._earlier if report.started <= until.started]
        for old, new in reversed([*pairwise(known)]):
            if moved := changed_layers(old, new.stack, new.lock):
                changes = "; ".join(map(str, moved))
                return f"{nothing}; the last change, {new.started}: {changes}"
        return nothing


def ratio(depth: float, kind: Kind) -> str:
    """Return how a number relates to what is usual: ``70%``, or ``3.2 times``."""
    return (
        f"{math.exp(-depth):.0%}" if kind.better > 0 else f"{math.exp(depth):.1f} times"
    )


def _standard(fall: Fall, kind: Kind) -> float:
    return math.exp(kind.better * fall.level)


def _told(check: Check) -> str:
    return check.finding.symptom if check.finding else check.title
