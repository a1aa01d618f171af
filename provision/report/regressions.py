"""Compare a report with earlier ones: the layers of the host, then the result of each check."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from provision.core.findings import Finding, Level, described, worst_first
from provision.report.layers import LayerChange, cause_of, changed_layers
from provision.report.limits import FEWEST, MORE_PRESSURE, STOLEN
from provision.report.measures import is_rate, kind_of, number_of, worse
from provision.report.model import Check, Measurement, Report
from provision.report.trend import judge
from provision.report.vanished import REFUSED, comparable_runs, lost_by

SLOWED = "slowed"
_FINDINGS = Path(__file__).with_name("findings.toml")


@dataclass(frozen=True, slots=True)
class CheckSpeed:
    """One rate of a check beside its history."""

    check: str
    """Id of the check."""
    name: str
    """Name of the number."""
    unit: str
    """Of `value` and `usual`, such as `images/s`."""
    value: float
    """The rate of this run."""
    usual: float
    """Median of the runs before; 0 without any."""
    runs: int
    """How many those are; runs that were slower do not count."""
    suspect: bool
    """Whether it is so low that it is measured again."""
    not_evaluated: str
    """Why there is no verdict, such as `3 of 8 runs`; empty where there is one."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a report with the earlier ones of its target and device.

    ``since``: of the last report of its suite that fails no more, else of the last one; ISO 8601.
    """

    target: str
    """Name of the target."""
    since: str
    """When the report it is compared with was started, ISO 8601, UTC."""
    changes: tuple[LayerChange, ...]
    """What changed on the host since then."""
    findings: tuple[Finding, ...]
    """What is worse, vanished or healed; worst first."""
    compared: tuple[str, ...] = ()
    """Ids of the checks that have an earlier result."""
    new: tuple[str, ...] = ()
    """Ids of the checks that have no earlier result."""
    speeds: tuple[CheckSpeed, ...] = ()
    """Each speed beside its history on this host."""
    vanished: tuple[str, ...] = ()
    """Checks, operators and types that the previous run had, and this one does not have."""
    of_build: bool = False
    """Whether the report it is compared with is that of a build."""

    @property
    def word(self) -> Literal["passed", "slower", "worse"]:
        """How the run compares with the earlier ones."""
        word: Literal["passed", "slower"] = "passed"
        for finding in self.findings:
            # A speed is an error only where it was asked to count.
            if finding.level is Level.ERROR or (finding.bad and finding.code != SLOWED):
                return "worse"
            if finding.bad:
                word = "slower"
        return word

    @property
    def suspects(self) -> set[str]:
        """The checks whose speed is to be measured again."""
        return {speed.check for speed in self.speeds if speed.suspect}


def compare_reports(earlier: Sequence[Report], after: Report) -> Comparison:
    """Compare each check of a report with its results in comparable ones, oldest first."""
    comparer = _Comparer(earlier, after)
    comparer.compare()
    standard = _standard(earlier, after)
    return Comparison(
        target=after.target,
        since=standard.started,
        changes=changed_layers(standard, after.stack, after.lock),
        findings=tuple(worst_first(comparer.findings)),
        compared=tuple(comparer.compared),
        new=tuple(comparer.new),
        speeds=tuple(comparer.speeds),
        vanished=tuple(comparer.vanished),
        of_build=bool(standard.basis),
    )


def _standard(earlier: Sequence[Report], after: Report) -> Report:
    """The last report that fails in nothing else than this one; a broken one tells too little."""
    whole = [report for report in earlier if not report.broken] or earlier
    standard = whole[-1]
    failing = {check.id for check in after.failed}
    for report in whole:
        failed = {check.id for check in report.failed}
        if report.suite == after.suite and failed <= failing:
            standard = report
    return standard


def _ran(report: Report) -> list[Check]:
    """The checks that came to a result; a blocked one says nothing about itself."""
    return [check for check in report.checks if not check.blocked]


def _symptom(check: Check) -> str:
    return check.finding.symptom if check.finding else check.title


class _Result(NamedTuple):
    report: Report
    check: Check


class _Comparer:
    """What one comparison finds, as it goes through the checks."""

    def __init__(self, earlier: Sequence[Report], after: Report) -> None:
        self._earlier = earlier
        self._after = after
        self.findings: list[Finding] = []
        self.compared: list[str] = []
        self.new: list[str] = []
        self.speeds: list[CheckSpeed] = []
        self.vanished: list[str] = []
        self.past: dict[str, list[_Result]] = {}
        for report in earlier:
            for check in _ran(report):
                results = self.past.setdefault(check.id, [])
                results.append(_Result(report, check))

    def compare(self) -> None:
        """Go through the checks: those that are gone, then those that ran."""
        self._find_vanished()
        for check in _ran(self._after):
            past = self.past.get(check.id)
            if past is None:
                self.new.append(check.id)
                continue
            self.compared.append(check.id)
            if check.outcome == "failed":
                self._find_failure(check, past)
            else:
                self._find_changes(check, past)

    def _find(
        self,
        kind: str,
        check: Check,
        *evidence: str,
        before: Report,
        until: Report | None = None,
        **facts: str,
    ) -> None:
        """Add a finding about a check, caused by what changed after a report."""
        cause = cause_of(before, until or self._after, self._earlier)
        facts |= {"check": check.id, "cause": cause}
        self.findings.append(described(_FINDINGS, kind, *evidence, **facts))

    def _find_vanished(self) -> None:
        """Find the checks of this suite that ran earlier; a note after the first time."""
        now = {check.id for check in (*self._after.checks, *self._after.reused)}
        reasons = {entry.id: f": {entry.reason}" for entry in self._after.not_run}
        # Asked for the same devices, too: of others, none has vanished.
        asked = self._after.suite, self._after.scope
        last: dict[str, _Result] = {}
        newest = None
        for report in self._earlier:
            # A run that broke says nothing of what it did not come to.
            if (report.suite, report.scope) == asked and not report.broken:
                newest = report
                last |= {check.id: _Result(report, check) for check in report.checks}
        for name in sorted(last.keys() - now):
            report, check = last[name]
            kind = "check-vanished-before"
            if report is newest:
                kind = "check-vanished"
                self.vanished.append(name)
            evidence = f"{check.title}; last run {report.started}"
            reason = reasons.get(name, "")
            self._find(kind, check, evidence, before=report, reason=reason)

    def _find_failure(self, check: Check, past: list[_Result]) -> None:
        """Find that a check broke, or is still failing and since when."""
        failing = []
        good = None
        for report, old in past:
            if old.outcome == "failed":
                failing.append(report)
            else:
                good = report
                failing = []
        if good and not failing:
            if check.finding and check.finding.code == REFUSED:
                self.vanished.append(f"{check.id}: {check.finding.symptom}")
            self._find("check-broke", check, _symptom(check), before=good)
            return
        first = failing[0]
        since = first.started
        if good is None:
            since += ", the first report"
        self._find(
            "check-still-failing",
            check,
            _symptom(check),
            before=good or first,
            until=first,
            since=since,
        )
        if check.finding:
            still = replace(self.findings[-1], remedy=check.finding.remedy)
            self.findings[-1] = still

    def _find_changes(self, check: Check, past: list[_Result]) -> None:
        """Find what is worse or better in a check that has not failed."""
        report, last = past[-1]
        if last.outcome == "failed":
            self._find("check-healed", check, _symptom(last), before=report)
        # With those that warned: a card that always does must not lack a course.
        good = [result for result in past if result.check.outcome != "failed"]
        self._find_lost_parts(check, good)
        for name, number in check.numbers.items():
            if is_rate(number):
                self._judge_speed(check, name, number, good)
            else:
                self._find_worse(check, name, number, good)

    def _find_lost_parts(self, check: Check, good: list[_Result]) -> None:
        """Find that a check no longer compares what it did in its last good run."""
        same = [old for old in good if comparable_runs(old.report, self._after)]
        if not same:
            return
        report, last = same[-1]
        if lost := lost_by(check, last):
            self.vanished.append(f"{check.id}: {', '.join(lost)}")
            kind = "compares-less"
            # Another torch offers other operators; the suite has checked what it refuses.
            if report.torch != self._after.torch:
                kind = "compares-less-by-torch"
            self._find(kind, check, *lost[:20], before=report)

    def _course(
        self, name: str, now: Measurement, good: list[_Result]
    ) -> list[tuple[Report, Measurement]]:
        """The earlier results that a number compares with, oldest first."""
        course = []
        for report, check in good:
            number = number_of(check, name, now.unit)
            if is_rate(now):  # load and heat of the longer suite are others
                same = report.suite == self._after.suite
            else:  # an error that other code computed is another number
                same = now.limit is None or report.files == self._after.files
            if number and same:
                course.append((report, number))
        return course

    def _find_worse(
        self, check: Check, name: str, now: Measurement, good: list[_Result]
    ) -> None:
        """Find that a number is worse than its own last good result."""
        standard: Measurement | None = None
        measured = self._after
        for report, number in self._course(name, now, good):
            # What was worse is skipped, so that it never becomes the standard.
            if standard is None or not _code(name, number, standard):
                standard, measured = number, report
        if standard and (code := _code(name, now, standard)):
            unit = now.dimension
            evidence = f"{standard.value:.4g}{unit} -> {now.value:.4g}{unit}"
            if now.limit is not None:
                evidence += f"; the limit is {now.limit:.3g}"
            self._find(code, check, evidence, before=measured, name=name)

    def _judge_speed(
        self, check: Check, name: str, now: Measurement, good: list[_Result]
    ) -> None:
        """Note a rate beside its history; find that it is slower than usual."""
        course = [*self._course(name, now, good), (self._after, now)]
        speed = judge([number.value for _, number in course])
        reason = self._why_not_evaluated(speed.runs)
        rate = CheckSpeed(
            check=check.id,
            name=name,
            unit=now.unit,
            value=now.value,
            usual=speed.usual,
            runs=speed.runs,
            suspect=speed.suspect and not reason,
            not_evaluated=reason,
        )
        self.speeds.append(rate)
        if reason or not speed.slower:
            return
        usual = f"{speed.usual:.4g} {now.unit} (median of {speed.runs} runs)"
        evidence = f"{usual} -> {now.value:.4g} {now.unit}"
        if now.again is not None:
            evidence += f"; the best of several measurements, the least {now.again:.4g}"
        first, _ = course[speed.since]
        before, _ = course[speed.since - 1]
        since = ""
        if first is not self._after:
            since = f", since {first.started}"
        facts = {"name": name, "ratio": f"{speed.ratio:.0%}", "since": since}
        self._find(SLOWED, check, evidence, before=before, until=first, **facts)

    def _why_not_evaluated(self, runs: int) -> str:
        if self._after.accelerator == "cpu":
            return "a CPU promises no speed"
        if runs < FEWEST:
            return f"{runs} of {FEWEST} runs"
        load = self._after.load
        pressures = [run.load.get("cpu pressure", 0.0) for run in self._earlier]
        usual = median(pressures) + MORE_PRESSURE
        if load.get("steal", 0.0) > STOLEN or load.get("cpu pressure", 0.0) > usual:
            return "the host was busy"
        return ""


def _code(name: str, now: Measurement, standard: Measurement) -> str:
    return worse(kind_of(name, now), now.value, standard.value)
