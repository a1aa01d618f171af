"""Show a smoke run: its report and its comparison with the last good one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.findings import Finding, Level
from provision.core.text import plural

if TYPE_CHECKING:
    from provision.report.model import Check, Report
    from provision.report.regressions import Comparison, SmokeResult, SmokeSkipped
    from provision.ui.console import Console

_SHOWN = 3  # numbers of a check; the report has the others


def show_smoke(result: SmokeResult, console: Console) -> None:
    """Print the report, then what changed since the last good one."""
    show_report(result.report, console)
    if result.comparison:
        show_comparison(result.comparison, console)


def show_report(result: Report, console: Console) -> None:
    """Print each check, the findings, and the verdict."""
    for check in result.checks:
        mark, style = _mark(check)
        console.line(f"{mark} {check.id:<28} {_numbers(check)}", style)
    for check in result.checks:
        if check.finding and not check.blocked:
            found = check.finding.model_dump() | {"level": Level(check.finding.level)}
            console.finding(Finding(**found))
    blocked = sum(check.blocked for check in result.failed)
    because = f", {blocked} of these not run because of the others" if blocked else ""
    passed = len(result.checks) - len(result.failed)
    console.line(
        f"{result.suite} suite on {result.device.get('name', result.target)}: {passed} passed, "
        f"{len(result.failed)} failed{because}, in {result.seconds:.1f} s",
        "bold red" if result.failed else "bold green",
    )


def _mark(check: Check) -> tuple[str, str]:
    if check.outcome == "passed":
        return "ok  ", "green"
    if check.outcome == "warned":
        return "warn", "yellow"
    return ("--  ", "dim") if check.blocked else ("FAIL", "bold red")


def _numbers(check: Check) -> str:
    shown = [
        f"{name} {number.value:.3g}{'' if number.unit == '1' else ' ' + number.unit}"
        for name, number in check.numbers.items()
    ]
    rest = len(shown) - _SHOWN
    return ", ".join([*shown[:_SHOWN], *([f"{rest} more in the report"] if rest > 0 else [])])


def show_comparison(result: Comparison, console: Console) -> None:
    """Print what changed on the host, then what got worse."""
    for change in result.moves:
        console.note(f"since {result.since}: {change}")
    for finding in result.findings:
        console.finding(finding)
    if result.new:
        console.note(f"no earlier result to compare with: {', '.join(result.new)}")
    if not result.findings:
        common = f"{plural(len(result.compared), 'check')} " if result.new else ""
        console.line(f"{common}as good as on {result.since}", "green")


def show_skipped(result: SmokeSkipped, console: Console) -> None:
    """Print the verdict of the report that still holds."""
    verdict = f"{plural(result.failed, 'check')} failed" if result.failed else "all passed"
    when = f"no driver, kernel, runtime or lock changed since {result.since}"
    style = "bold red" if result.failed else "green"
    console.line(f"{result.target}: {when}; {verdict} then", style)
