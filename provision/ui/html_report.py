"""One self-contained HTML page of a target's reports: speed and changes first, then each check.

No script, no other file, no network: it can be mailed, archived, and read on a phone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.report.model import comparable
from provision.report.regressions import compare_reports
from provision.ui.courses import amount, courses_of, figures, layer_changes
from provision.ui.html_style import STYLE, escape
from provision.ui.plot import bar, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from provision.report.model import Check, Measurement, Report


def render_page(reports: Sequence[Report]) -> str:
    """Return the page of some reports of one target.

    Args:
        reports: Oldest first, at least one; the last one is what the page is about.
    """
    last = reports[-1]
    history = [*comparable(reports[:-1], last), last]
    title = f"{last.target}: {'passed' if last.proves else 'failed'}"
    parts = [
        _verdict(last),
        *_throughput(history),
        *_comparison(history),
        _checks(last),
        *_over_time(history),
        _host(last),
    ]
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
        "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _verdict(last: Report) -> str:
    counts = last.counts
    ends = {end: counts[end] for end in ("failed", "not_run", "warned", "carried") if counts[end]}
    if last.proves:
        ends = {"passed": counts["passed"]} | ends
    words = [
        f"{number} of {counts['owed']} {end.replace('_', ' ')}" for end, number in ends.items()
    ]
    tone, word = "good" if last.proves else "bad", ", ".join(words)
    names = [str(each.get("name")) for each in last.devices or (last.device,) if "name" in each]
    device = ", ".join(names) or "no device"
    return (
        f"<header><h1>{escape(last.target)}: <span class={tone}>{word}</span></h1>"
        f"<p class=soft>{last.suite} suite on {escape(device)}, {escape(last.started)}, "
        f"{last.seconds:.1f} s</p></header>"
    )


def _throughput(history: Sequence[Report]) -> Iterator[str]:
    last = history[-1]
    same = [report for report in history if report.suite == last.suite]
    rates = [course for course in courses_of(same) if course.number.unit.endswith("/s")]
    rates = [course for course in rates if course.dots[-1].at == seconds(last.started)]
    if rates:
        drawn = figures(rates, layer_changes(same), "plots rates")
        yield f"<section><h2>Throughput</h2>{drawn}</section>"


def _comparison(history: Sequence[Report]) -> Iterator[str]:
    yield "<section><h2>What changed</h2>"
    if len(history) == 1:
        yield "<p class=soft>This is the first report of this device: nothing to compare.</p>"
    else:
        found = compare_reports(history[:-1], history[-1])
        yield "".join(
            f"<p>Since {escape(found.since)}: {escape(str(move))}</p>" for move in found.moves
        )
        for each in found.findings:
            yield _box(each.level, each.symptom, each.cause, each.remedy, each.evidence)
        if not found.findings:
            words = f"{len(found.compared)} checks as good as on {escape(found.since)}."
            yield f"<p class=good>{words}</p>"
        if found.new:
            yield f"<p class=soft>No earlier result: {escape(', '.join(found.new))}.</p>"
    yield "</section>"


def _checks(last: Report) -> str:
    # sorted() is stable: failed checks first, otherwise in the order of the run.
    order = ("failed", "warned", "passed")
    rows = sorted(last.checks, key=lambda check: order.index(check.outcome))
    listed = "".join(map(_check, rows))
    listed += "".join(
        f"<p class=soft><code>{escape(each.id)}</code> carried from {escape(each.ran)}</p>"
        for each in last.carried
    )
    return f"<section><h2>Checks</h2>{listed}{_not_run(last)}</section>"


def _not_run(last: Report) -> str:
    """Return the checks without a result, each with its reason; those that are owed are open."""
    if not last.not_run:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(entry.id)}</code><td class={'bad' if entry.owed else 'soft'}>"
        f"{'owed: ' if entry.owed else ''}{escape(entry.reason)}"
        for entry in last.not_run
    )
    state = " open" if last.missing else ""
    words = f"{len(last.missing)} owed" if last.missing else "none of them owed"
    return (
        f"<details{state}><summary>{len(last.not_run)} not run, {words}</summary>"
        f"<table><tr><th>check<th>reason{rows}</table></details>"
    )


def _check(check: Check) -> str:
    bad = check.outcome == "failed"
    tone = {"failed": "bad", "warned": "warn", "passed": "good"}[check.outcome]
    why = check.finding
    box = _box(why.level, why.symptom, why.cause, why.remedy, why.evidence) if why else ""
    return (
        f"<details{' open' if bad else ''}><summary><span class={tone}>{check.outcome}</span> "
        f"<code>{escape(check.id)}</code> <span class=soft>{check.seconds:.1f} s</span></summary>"
        f"<p>{escape(check.title)} <span class=soft>Stands for: {escape(check.stands_for)}.</span>"
        f"</p>{box}{_numbers(check)}</details>"
    )


def _numbers(check: Check) -> str:
    if not check.numbers:
        return ""
    # HTML lets the end tags of rows and cells be left out.
    rows = "".join(
        f"<tr><td>{escape(name)}<td class=n>{amount(number)}"
        f"{f' ± {number.spread / 2:.2g}' if number.spread else ''}{_limit(number)}"
        for name, number in check.numbers.items()
    )
    return f"<table><tr><th>number<th>value<th colspan=2>limit{rows}</table>"


def _limit(number: Measurement) -> str:
    if number.limit is None or not number.comparable:
        return "<td><td>"
    return f"<td class=n>{number.limit:.2g}<td class=share>{bar(number.value, number.limit)}"


def _box(level: str, symptom: str, cause: str, remedy: str, evidence: Iterable[str]) -> str:
    return (
        f"<div class='finding {escape(level)}'><strong>{escape(symptom)}</strong>"
        f"<br><span class=soft>{escape('; '.join(evidence))}</span>"
        f"<br>Cause: {escape(cause)}<br>Remedy: {escape(remedy)}</div>"
    )


def _over_time(history: Sequence[Report]) -> Iterator[str]:
    """Yield the courses, quick and full runs apart: load and heat of the longer one differ."""
    groups = []
    for suite in ("quick", "full"):
        runs = [report for report in history if report.suite == suite]
        drawn = [course for course in courses_of(runs) if len(course.dots) > 1]
        if drawn:
            groups.append(
                f"<details class=group><summary>{suite} suite, {len(runs)} runs</summary>"
                f"{figures(drawn, layer_changes(runs))}</details>"
            )
    if groups:
        yield "<section><h2>Over time</h2><p class=soft>A dashed vertical line: the driver, the "
        yield f"kernel, a runtime or the lock changed.</p>{''.join(groups)}</section>"


def _host(last: Report) -> str:
    facts = {
        "device": last.device.get("name", "none"),
        "torch": last.torch or "none",
        "Python": last.python,
        **last.stack,
        "lock": last.lock or "a foreign environment",
    }
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items())
    return f"<section><h2>Host and environment</h2><dl class=facts>{listed}</dl></section>"
