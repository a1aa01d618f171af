"""One self-contained HTML page of a target's reports: speed and changes first, then each check.

No script, no other file, no network. Markup: ``report.html.j2``, style: ``report.css``.
"""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from provision.core.text import harmless
from provision.report.fleet import Fleet
from provision.report.model import Report, comparable
from provision.report.regressions import compare_reports
from provision.ui import courses

# The line by which a later page knows this one as Provision's.
MARK = "<meta name=generator content=provision>"
# How pages begin that version 0.1.0 wrote; the next version no longer has to replace them.
EARLIER = """<!doctype html>
<html lang=en><head><meta charset=utf-8>
<meta name=viewport content='width=device-width'>
<title>"""
EARLIER_FLEET = """<!DOCTYPE html>
<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>
<title>Fleet</title><style>"""


def _written(value: object) -> object:
    if hasattr(value, "__html__"):  # markup of a macro
        return value
    return harmless(str(value))


# What a report says comes from elsewhere: each text of it passes `_written`, then the autoescape.
_PAGES = Environment(
    autoescape=True,
    finalize=_written,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    loader=FileSystemLoader(Path(__file__).parent),
)
_PAGES.globals |= {"Axes": courses.Axes, "day": courses.day}


def render_page(reports: Sequence[Report]) -> str:
    """Return the page about the last of some reports of one target, oldest first."""
    last = reports[-1]
    history = [*comparable(reports[:-1], last), last]
    now = courses.seconds(last.started)
    groups, rates = [], []
    # Quick and full runs apart: load and heat of the longer one differ.
    for suite in ("quick", "full", "health"):
        runs = [run for run in history if run.suite == suite]
        drawn = courses.courses_of(runs)
        several = [course for course in drawn if len(course.dots) > 1]
        if several:
            groups.append((suite, runs, several, courses.layer_changes(runs)))
        for course in drawn:
            if suite == last.suite and course.usual and course.dots[-1].at == now:
                rates.append(course)
    compared = None
    if len(history) > 1:
        compared = compare_reports(history[:-1], last)
    same_suite = [run for run in history if run.suite == last.suite]
    return _PAGES.get_template("report.html.j2").render(
        last=last,
        load=courses.within_run(last),
        rates=rates,
        rate_changes=courses.layer_changes(same_suite),
        groups=groups,
        compared=compared,
    )


def render_fleet(fleet: Fleet) -> str:
    """Return the page of a fleet, with every node."""
    return _PAGES.get_template("fleet.html.j2").render(fleet=fleet)
