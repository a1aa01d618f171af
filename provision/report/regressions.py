"""Compare a report with earlier ones: the layers of the host, then the result of each check."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from provision.core.findings import Finding, Level, described, worst_first
from provision.report.layers import LayerChange, cause_of, changed_layers
from provision.report.measures import is_rate, number_of, worse
from provision.report.model import Check, Measurement, Report
from provision.report.trend import FEWEST, Speed, judge
from provision.report.vanished import REFUSED, comparable_runs, lost_by

SLOWED = "slowed"
_finding = partial(described, Path(__file__).with_name("findings.toml"))
_STOLEN = 0.05  # of the processor's time, from which a run says little about a device
_MORE_PRESSURE = 0.25  # of the time, than usual on this host


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
    """Of this run."""
    usual: float
    """Median of the runs before; 0 without any."""
    runs: int
    """How many those are; runs that were slower do not count."""
    suspect: bool
    """Whether it is so low that it is measured again."""
    not_judged: str
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
    moves: tuple[LayerChange, ...]
    """What changed on the host since then."""
    findings: tuple[Finding, ...]
    """What is worse, vanished or healed; worst first."""
    compared: tuple[str, ...] = ()
    """Ids of the checks that have an earlier result."""
    new: tuple[str, ...] = ()
    """Of those that have none."""
    speeds: tuple[CheckSpeed, ...] = ()
    """Each speed beside its history on this host."""
    vanished: tuple[str, ...] = ()
    """Checks, operators and types that the run before had, and this one has not."""

    @property
    def worse(self) -> bool:
        """Whether anything but speed is worse than it has been."""
        for finding in self.findings:
            # A speed is an error only where it was asked to count.
            if finding.bad and (finding.code, finding.level) != (SLOWED, Level.WARNING):
                return True
        return False

    @property
    def slower(self) -> bool:
        """Whether a speed is below what this host is used to."""
        return any(each.code == SLOWED for each in self.findings)

    @property
    def word(self) -> Literal["passed", "slower", "worse"]:
        """How the run stands beside the earlier ones."""
        if self.worse:
            return "worse"
        return "slower" if self.slower else "passed"

    @property
    def suspects(self) -> set[str]:
        """The checks whose speed is to be measured again."""
        return {speed.check for speed in self.speeds if speed.suspect}


class _Result(NamedTuple):
    report: Report
    check: Check


def compare_reports(earlier: Sequence[Report], after: Report) -> Comparison:
    """Compare each check of a report with its results in comparable ones, oldest first."""
    failing = {check.id for check in after.failed}
    whole = [report for report in earlier if not report.broken] or earlier
    standard = whole[-1]
    for report in whole:
        no_worse = {check.id for check in report.failed} <= failing
        if report.suite == after.suite and no_worse:
            standard = report
    comparer = _Comparer(earlier, after)
    findings = [*comparer.vanished(), *comparer.differences()]
    known = {check.id for report in earlier for check in _ran(report)}
    ids = [check.id for check in _ran(after)]
    return Comparison(
        target=after.target,
        since=standard.started,
        moves=changed_layers(standard, after.stack, after.lock),
        findings=tuple(worst_first(findings)),
        compared=tuple(name for name in ids if name in known),
        new=tuple(name for name in ids if name not in known),
        speeds=tuple(comparer.speeds),
        vanished=tuple(comparer.gone),
    )


def _ran(report: Report) -> list[Check]:
    """Return the checks that came to a result; a blocked one says nothing about itself."""
    return [check for check in report.checks if not check.blocked]


class _Comparer:
    def __init__(self, earlier: Sequence[Report], after: Report) -> None:
        self._earlier = earlier
        self._after = after
        self.speeds: list[CheckSpeed] = []
        self.gone: list[str] = []
        self._past: dict[str, list[_Result]] = {}
        for report in earlier:
            for check in _ran(report):
                self._past.setdefault(check.id, []).append(_Result(report, check))

    def vanished(self) -> Iterator[Finding]:
        """Yield the checks of this suite that ran earlier; a note after the first time."""
        now = {check.id for check in (*self._after.checks, *self._after.carried)}
        reasons = {entry.id: f": {entry.reason}" for entry in self._after.not_run}
        # Asked for the same devices, too: of others, none has vanished.
        asked = self._after.suite, self._after.scope
        same: list[Report] = []
        for run in self._earlier:
            # A run that broke says nothing of what it did not come to.
            if (run.suite, run.scope) == asked and not run.broken:
                same.append(run)
        last = {old.id: (report, old) for report in same for old in report.checks}
        for name in sorted(last.keys() - now):
            report, old = last[name]
            kind = "check-vanished" if report is same[-1] else "check-vanished-before"
            if report is same[-1]:
                self.gone.append(name)
            evidence = f"{old.title}; last run {report.started}"
            facts = {"reason": reasons.get(name, ""), "cause": self._cause(report)}
            yield _finding(kind, evidence, check=name, **facts)

    def differences(self) -> Iterator[Finding]:
        """Yield what is worse or better in the checks that ran."""
        if blocked := [check.id for check in self._after.checks if check.blocked]:
            yield _finding("checks-blocked", ", ".join(blocked), count=len(blocked))
        for check in _ran(self._after):
            past = self._past.get(check.id, [])
            if past and check.outcome == "failed":
                yield self._failed(check, past)
            elif past:
                yield from self._healed(check, past[-1])
                yield from self._compares_less(check, past)
                # With those that warned: a card that always does must not lack a course.
                passed = [old for old in past if old.check.outcome != "failed"]
                for name, number in check.numbers.items():
                    if is_rate(number):
                        yield from self._slowed(check, name, number, passed)
                    elif number.comparable:
                        yield from self._lost(check, name, number, passed)

    def _healed(self, check: Check, last: _Result) -> Iterator[Finding]:
        if last.check.outcome == "failed":
            cause = self._cause(last.report)
            symptom = _symptom(last.check)
            yield _finding("check-healed", symptom, check=check.id, cause=cause)

    def _compares_less(self, check: Check, past: list[_Result]) -> Iterator[Finding]:
        """Yield that a check no longer compares what it did in its last good run."""
        for report, old in reversed(past):
            if old.outcome == "failed" or not comparable_runs(report, self._after):
                continue
            if lost := lost_by(check, old):
                self.gone.append(f"{check.id}: {', '.join(lost)}")
                # Another torch offers other operators; the suite has judged what it refuses.
                same = report.torch == self._after.torch
                kind = "compares-less" if same else "compares-less-by-torch"
                facts = {"check": check.id, "cause": self._cause(report)}
                yield _finding(kind, *lost[:20], **facts)
            return

    def _failed(self, check: Check, past: list[_Result]) -> Finding:
        good = [at for at, old in enumerate(past) if old.check.outcome != "failed"]
        if good and good[-1] == len(past) - 1:
            if check.finding and check.finding.code == REFUSED:
                self.gone.append(f"{check.id}: {check.finding.symptom}")
            cause = self._cause(past[-1].report)
            return _finding("check-broke", _symptom(check), check=check.id, cause=cause)
        first = past[good[-1] + 1 if good else 0].report
        since = first.started if good else f"{first.started}, the first report"
        cause = self._cause(past[good[-1]].report if good else first, until=first)
        facts = {"check": check.id, "since": since, "cause": cause}
        finding = _finding("check-still-failing", _symptom(check), **facts)
        remedy = check.finding.remedy if check.finding else finding.remedy
        return replace(finding, remedy=remedy)

    def _lost(
        self, check: Check, name: str, now: Measurement, past: list[_Result]
    ) -> Iterator[Finding]:
        """Yield that a number is worse than its own last good result."""
        good: Measurement | None = None
        since = self._after
        for report, old in past:
            number = number_of(old, name, now.unit)
            # An error that other code computed is another number.
            if now.limit is not None and report.files != self._after.files:
                number = None
            # What was worse is passed over, so that it never becomes the standard.
            if number and not (good and worse(name, number, good)):
                good, since = number, report
        if good and (code := worse(name, now, good)):
            unit = f" {now.unit.removeprefix('1')}".rstrip()
            evidence = f"{good.value:.4g}{unit} -> {now.value:.4g}{unit}"
            if now.limit is not None:
                evidence += f"; the limit is {now.limit:.3g}"
            cause = self._cause(since)
            yield _finding(code, evidence, check=check.id, name=name, cause=cause)

    def _slowed(
        self, check: Check, name: str, now: Measurement, past: list[_Result]
    ) -> Iterator[Finding]:
        """Yield that a rate is slower than usual; note each rate beside its history."""
        runs: list[Report] = []
        rates: list[float] = []
        for report, old in past:
            number = number_of(old, name, now.unit)
            # Load and heat of the longer suite are others.
            if number is not None and report.suite == self._after.suite:
                runs.append(report)
                rates.append(number.value)
        speed = judge([*rates, now.value])
        reason = self._why_not_judged(speed)
        suspect = speed.suspect and not reason
        self.speeds.append(
            CheckSpeed(
                check.id,
                name,
                now.unit,
                now.value,
                speed.usual,
                speed.runs,
                suspect,
                reason,
            )
        )
        if speed.slower and not reason:
            runs.append(self._after)
            first = runs[speed.since]
            evidence = (
                f"{speed.usual:.4g} {now.unit} (median of {speed.runs} runs) -> "
                f"{now.value:.4g} {now.unit}"
            )
            if now.again is not None:
                evidence += (
                    f"; the best of several measurements, the least {now.again:.4g}"
                )
            since = "" if first is self._after else f", since {first.started}"
            cause = self._cause(runs[max(speed.since - 1, 0)], until=first)
            facts = {"ratio": f"{speed.ratio:.0%}", "since": since, "cause": cause}
            yield _finding(SLOWED, evidence, check=check.id, name=name, **facts)

    def _why_not_judged(self, speed: Speed) -> str:
        if self._after.accelerator == "cpu":
            return "a CPU promises no speed"
        if not speed.judged:
            return f"{speed.runs} of {FEWEST} runs"
        load = self._after.load
        pressures = [run.load.get("cpu pressure", 0.0) for run in self._earlier]
        usual = median(pressures) + _MORE_PRESSURE
        if load.get("steal", 0.0) > _STOLEN or load.get("cpu pressure", 0.0) > usual:
            return "the host was busy"
        return ""

    def _cause(self, before: Report, until: Report | None = None) -> str:
        return cause_of(before, until or self._after, self._earlier)


def _symptom(check: Check) -> str:
    return check.finding.symptom if check.finding else check.title
