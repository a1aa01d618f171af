"""Show a smoke run: its report and its comparison with the last good one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from provision.core.text import plural
from provision.report.model import Check, Report
from provision.ui.console import Console
from provision.ui.courses import sparkline, within_run

if TYPE_CHECKING:  # all verbs load this module
    from provision.commands.smoke import SmokeResult, SmokeSkipped
    from provision.report.regressions import CheckSpeed, Comparison

_SHOWN = 3  # numbers of a check; the report has the others
_NAMED = 10  # things that vanished; the findings name the others
_HANG = 5  # columns: what follows a mark such as `ok   `


def show_smoke(result: SmokeResult, console: Console) -> None:
    """Print the report, what changed since the last good one, and the word for the run."""
    if result.comparison and result.comparison.vanished:
        console.line(vanished(result.comparison), "bold red")
    show_report(result.report, console)
    if result.comparison:
        show_comparison(result.comparison, console)
    word = result.report.word
    console.verdict(f"{result.report.target}: {word}", good=word == "passed")


def show_report(result: Report, console: Console) -> None:
    """Print what did not pass, how many checks of each area did, the findings, and the verdict."""
    _show_checks(result, console)
    for check in result.checks:
        if check.finding and not check.blocked:
            console.finding(check.finding)
    for course in within_run(result):
        number = course.number
        ends = f"{number.rounds[0]:.4g} to {number.rounds[-1]:.4g} {number.unit}"
        line = f"     {course.name:<26} {sparkline(number.rounds)} {ends}"
        console.line(line, "dim")
    _show_reused(result, console)
    _show_missing(result, console)
    _show_left_out(result, console)
    facts = result.facts
    where = facts.pop("device", result.target)
    facts.pop("started")
    texts = [f"{name} {text}" for name, text in facts.items()]
    console.line(", ".join(texts), "dim")
    ended = f"{verdict(result)}, in {result.seconds:.1f} s"
    console.verdict(f"{result.suite} suite on {where}: {ended}", good=result.proves)


def _show_checks(result: Report, console: Console) -> None:
    """Print each check that no line has shown yet; those that passed, or were blocked, by area."""
    folded: dict[tuple[str, str], list[str]] = {}
    for check in result.checks:
        mark, style = _mark(check)
        if (check.outcome == "passed" or check.blocked) and not console.detailed:
            folded.setdefault((mark, style), []).append(check.id)
        elif check.id not in console.told:
            console.line(f"{mark} {check.id:<28} {_numbers(check)}".rstrip(), style)
    for (mark, style), ids in folded.items():
        console.line(f"{mark} {_areas(ids)}", style, _HANG)


def _areas(ids: Iterable[str]) -> str:
    """Return how many checks of each area there are: ``identity 9, device 4``."""
    counts = Counter(each.partition(".")[0] for each in ids)
    return ", ".join(f"{area} {count}" for area, count in counts.items())


def check_line(check: Check, width: int) -> tuple[str, str]:
    """Return a check that has just ended as one line of a width, and its style."""
    mark, style = _mark(check)
    line = f"{mark} {check.id:<22} {check.seconds:>6.1f} s"
    with_number = f"{line}  {_numbers(check, 1)}".rstrip()
    if len(with_number) < width:
        line = with_number
    return line, style


def verdict(result: Report) -> str:
    """Return how the required checks of a run ended: ``27 required, 26 passed, 1 failed``."""
    counts = result.counts
    text = f"{counts['required']} required, {counts['passed']} passed, {counts['failed']} failed"
    if blocked := sum(check.blocked for check in result.failed):
        text += f" ({blocked} of these because of the others)"
    for end in ("reused", "warned", "not_run"):
        if counts[end]:
            text += f", {counts[end]} {end.replace('_', ' ')}"
    return text


def _show_reused(result: Report, console: Console) -> None:
    """Print which checks of earlier runs are still valid, by run."""
    by_run: dict[str, list[str]] = defaultdict(list)
    for check in result.reused:
        by_run[check.ran].append(check.id)
    for ran, ids in sorted(by_run.items()):
        names = ", ".join(ids) if console.detailed else _areas(ids)
        line = f"same reused from {ran}, same host, driver and packages: {names}"
        console.line(line, "dim")


def _show_missing(result: Report, console: Console) -> None:
    """Print each required check that was not run, and what checks could not compare."""
    for entry in result.missing:
        console.line(f"MISS {entry.id:<28} {entry.why}", "bold red")
    for check in result.checks:
        for why, names in check.gaps.items():
            named = _few(names, "value")
            console.line(f"n/a  {named} of {check.id}: {why}", "dim", _HANG)


def _show_left_out(result: Report, console: Console) -> None:
    """Print how many checks the run did not require, and the main reason; -v shows each reason."""
    left_out = [entry for entry in result.not_run if not entry.required]
    reasons: dict[str, list[str]] = defaultdict(list)
    for entry in left_out:
        reasons[entry.reason].append(entry.id)
    most_first = sorted(reasons.items(), key=lambda each: -len(each[1]))
    if console.detailed:
        for reason, ids in most_first:
            line = f"n/a  {_few(ids, 'check')}: not required: {reason}"
            console.line(line, "dim", _HANG)
    elif most_first:
        reason, ids = most_first[0]
        main = f"{len(ids)} of them " if len(most_first) > 1 else ""
        line = (
            f"n/a  {plural(len(left_out), 'check')} not required here: {main}{reason}"
        )
        console.line(f"{line} (-v shows all)", "dim", _HANG)


def _few(names: list[str], noun: str) -> str:
    """Return a few names, or how many there are."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return plural(len(names), noun)


def _mark(check: Check) -> tuple[str, str]:
    if check.outcome == "passed":
        return "ok  ", "green"
    if check.outcome == "warned":
        return "warn", "yellow"
    if check.blocked:
        return "--  ", "dim"
    return "FAIL", "bold red"


def _numbers(check: Check, most: int = _SHOWN) -> str:
    shown = []
    for name, number in check.numbers.items():
        is_error = number.limit is not None
        text = f"{name} off by" if is_error else name
        shown.append(f"{text} {number.value:.3g}{number.dimension}")
    rest = len(shown) - most
    if rest > 0:
        shown[most:] = [f"{rest} more in the report"]
    return ", ".join(shown)


def vanished(comparison: Comparison) -> str:
    """Return what an earlier run had and this one has not, as one line."""
    names = "; ".join(comparison.vanished[:_NAMED])
    more = len(comparison.vanished) - _NAMED
    if more > 0:
        names += f"; and {more} more"
    return f"vanished since {comparison.since}: {names}"


def show_comparison(result: Comparison, console: Console) -> None:
    """Print what changed on the host, then what got worse."""
    for change in result.changes:
        console.remark(f"since {result.since}: {change}")
    for finding in result.findings:
        console.finding(finding)
    if result.new:
        console.line(_first_results(result, console), "dim")
    for speed in result.speeds:
        console.line(_speed(speed), "dim")
    if result.compared and not result.findings:
        count = plural(len(result.compared), "check")
        whose = "report of the build," if result.of_build else "report of"
        line = f"compared with the {whose} {result.since}: {count} as good as then"
        console.line(line, "green")


def _first_results(result: Comparison, console: Console) -> str:
    """Return that checks have no earlier result, as a line; -v names them."""
    which = plural(len(result.new), "check") if result.compared else "these checks"
    line = f"first run of {which} here: nothing to compare with yet"
    if console.detailed:
        line += f": {', '.join(result.new)}"
    return line


def _speed(speed: CheckSpeed) -> str:
    """Return a rate beside its history as a line."""
    line = f"     {speed.check} {speed.name} {speed.value:.4g} {speed.unit}"
    if speed.usual:
        line += f", {speed.value / speed.usual:.0%} of the usual {speed.usual:.4g}"
    if speed.not_evaluated:
        line += f"; not evaluated: {speed.not_evaluated}"
    return line


def show_skipped(result: SmokeSkipped, console: Console) -> None:
    """Print the verdict of the report that still holds."""
    word: str = result.word
    if word == "passed":
        word = "all passed"
    if result.failed:
        word = f"{plural(result.failed, 'check')} failed"
    when = f"no driver, kernel, runtime or lock changed since {result.since}"
    line = f"{result.target}: {when}; {word} then"
    console.verdict(line, good=result.word == "passed")
