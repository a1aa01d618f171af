"""One self-contained HTML page of a target's reports: the verdict, the host, the course of numbers.

No script, no other file, no network: it can be mailed, archived, and read on a phone.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from provision.report.regressions import compare_reports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provision.report.model import Check, Report
    from provision.report.regressions import Comparison

_WIDTH, _HEIGHT, _PAD = 320, 90, 8  # of a plot, in its own units; the page scales it

_STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --good: #137a3f; --bad: #b3261e;
  --paper: #fff; --tint: #f5f7f9; --mark: #2357c5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #39424e;
  --good: #5ad08a; --bad: #ff8a80; --paper: #14181d; --tint: #1d232a; --mark: #8ab4ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.good { color: var(--good); } .bad { color: var(--bad); } .soft { color: var(--soft); }
.facts { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .1rem 1rem; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; }
.check { border-top: 1px solid var(--line); padding: .6rem 0; }
.check > summary { cursor: pointer; display: flex; gap: .6rem; }
.check .id { font-family: ui-monospace, monospace; font-weight: 600; }
.finding { border-left: 4px solid var(--bad); background: var(--tint); padding: .5rem .8rem;
  margin: .5rem 0; }
.finding.note { border-color: var(--good); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--tint); padding: .6rem; }
figcaption { font-size: .85rem; } svg { width: 100%; height: auto; display: block; }
svg .course { fill: none; stroke: var(--mark); stroke-width: 2; }
svg .moved { stroke: var(--soft); stroke-dasharray: 3 3; } svg .at { fill: var(--mark); }
"""


def render_page(reports: Sequence[Report]) -> str:
    """Return the page of some reports of one target.

    Args:
        reports: Oldest first, at least one; the last one is what the page is about.
    """
    last = reports[-1]
    title = f"{last.target}: {'failed' if last.failed else 'passed'}"
    parts = [_verdict(last), *_comparison(reports), _checks(last), *_plots(reports)]
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
        "<meta name=viewport content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _verdict(last: Report) -> str:
    failed, total = len(last.failed), len(last.checks)
    tone, word = ("bad", f"{failed} of {total} failed") if failed else ("good", f"{total} passed")
    facts = {
        "suite": last.suite,
        "when": last.started,
        "took": f"{last.seconds:.1f} s",
        "device": last.device.get("name", "none"),
        "torch": last.torch or "none",
        "Python": last.python,
        **last.stack,
        "lock": last.lock or "a foreign environment",
    }
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items())
    heading = f"<h1>{escape(last.target)}: <span class={tone}>{word}</span></h1>"
    return f"<header>{heading}<dl class=facts>{listed}</dl></header>"


def _comparison(reports: Sequence[Report]) -> Iterator[str]:
    last = reports[-1]
    good = [r for r in reports[:-1] if r.suite == last.suite and not r.failed]
    if not good:
        return
    found: Comparison = compare_reports(good[-1], last)
    yield f"<section><h2>Since the last good report ({escape(found.since)})</h2>"
    if not found.moves and not found.findings:
        yield "<p class=soft>Nothing changed.</p>"
    yield "".join(f"<p>{escape(str(move))}</p>" for move in found.moves)
    for finding in found.findings:
        yield _box(finding.level, finding.symptom, finding.cause, finding.remedy, finding.evidence)
    yield "</section>"


def _checks(last: Report) -> str:
    rows = sorted(last.checks, key=lambda check: check.outcome != "failed")
    return "<section><h2>Checks</h2>" + "".join(map(_check, rows)) + "</section>"


def _check(check: Check) -> str:
    bad = check.outcome == "failed"
    mark = "<span class=bad>failed</span>" if bad else "<span class=good>passed</span>"
    numbers = "".join(
        f"<dt>{escape(name)}</dt><dd>{number.value:.4g} {escape(_unit(number.unit))}"
        f"{f' ± {number.spread / 2:.2g}' if number.spread else ''}</dd>"
        for name, number in check.numbers.items()
    )
    why = check.finding
    box = _box(why.level, why.symptom, why.cause, why.remedy, why.evidence) if why else ""
    return (
        f"<details class=check{' open' if bad else ''}><summary>{mark}"
        f"<span class=id>{escape(check.id)}</span></summary>"
        f"<p>{escape(check.title)} <span class=soft>Stands for: {escape(check.stands_for)}.</span>"
        f"</p>{box}<dl class=facts>{numbers}</dl></details>"
    )


def _unit(unit: str) -> str:
    return "" if unit == "1" else unit


def _box(level: str, symptom: str, cause: str, remedy: str, evidence: Sequence[str]) -> str:
    return (
        f"<div class='finding {escape(level)}'><strong>{escape(symptom)}</strong>"
        f"<br><span class=soft>{escape('; '.join(evidence))}</span>"
        f"<br>Cause: {escape(cause)}<br>Remedy: {escape(remedy)}</div>"
    )


def _plots(reports: Sequence[Report]) -> Iterator[str]:
    courses: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for at, report in enumerate(reports):
        for check in report.checks:
            for name, number in check.numbers.items():
                key = (check.id, name, number.unit)
                courses.setdefault(key, []).append((at, number.value))
    moved = [at for at in range(1, len(reports)) if reports[at].stack != reports[at - 1].stack]
    drawn = [_plot(key, course, moved, len(reports)) for key, course in courses.items()
             if len(course) > 1 and _is_plotted(key[2])]  # fmt: skip
    if drawn:
        yield "<section><h2>Over time</h2><p class=soft>From the oldest report to the newest. "
        yield "A dashed line: the driver, the kernel or a runtime changed there.</p>"
        yield f"<div class=plots>{''.join(drawn)}</div></section>"


def _is_plotted(unit: str) -> bool:
    """Rates, times and errors; counts do not move."""
    return unit.endswith("/s") or unit in {"s", "1"}


def _plot(
    key: tuple[str, str, str], course: list[tuple[int, float]], moved: list[int], count: int
) -> str:
    check, name, unit = key
    values = [value for _, value in course]
    low, high = min(0.0, *values), max(values) or 1.0

    def x(at: float) -> float:
        return _PAD + at / max(count - 1, 1) * (_WIDTH - 2 * _PAD)

    def y(value: float) -> float:
        return _HEIGHT - _PAD - (value - low) / ((high - low) or 1.0) * (_HEIGHT - 2 * _PAD)

    points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in course)
    lines = "".join(
        f"<line class=moved x1={x(at - 0.5):.1f} x2={x(at - 0.5):.1f} y1=0 y2={_HEIGHT} />"
        for at in moved
    )
    at, value = course[-1]
    told = f"{check} {name}, now {value:.4g} {_unit(unit)}, from {low:.3g} to {high:.4g}"
    return (
        f"<figure><svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='{escape(told)}'>"
        f"{lines}<polyline class=course points='{points}' />"
        f"<circle class=at cx={x(at):.1f} cy={y(value):.1f} r=3 /></svg>"
        f"<figcaption><strong>{escape(check)}</strong> {escape(name)}<br>"
        f"<span class=soft>now {value:.4g} {escape(_unit(unit))}, "
        f"scale {low:.3g} to {high:.4g}</span></figcaption></figure>"
    )
