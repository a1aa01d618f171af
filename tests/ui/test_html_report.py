"""The page: everything is there, nothing is fetched, and a long history stays small."""

from __future__ import annotations

import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from provision.report.model import NotRun
from provision.ui import html_report
from provision.ui.html_report import render_page
from tests.core.test_text import NASTY
from tests.report.test_regressions import STACK, report

STYLE = Path(html_report.__file__).with_name("report.css").read_text(encoding="utf-8")
_VOID = {"meta", "br", "rect", "circle", "path"}
_IMPLIED = {"td", "th", "tr"}  # HTML closes them by itself


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.stray: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID | _IMPLIED:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of SVG that closes itself."""

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.stray.append(tag)


def assert_sound(text: str) -> None:
    tags = _Tags()
    tags.feed(text)
    assert tags.stray == []
    assert tags.open == []


def headings(text: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_the_page_has_verdict_host_and_checks() -> None:
    text = render_page([report(), report("device.matmul", day=2)])
    for words in (
        "1 of 2 failed",
        "Arc A770",
        "compute-runtime",
        "25.18",
        "device.matmul raises",
    ):
        assert words in text
    assert "check-broke" not in text  # codes are for machines
    assert "worked and fails now" in text


def test_what_was_not_run_is_listed_with_its_reason() -> None:
    entries = [
        {
            "id": "offload.cpu",
            "title": "t",
            "required": False,
            "reason": "needs <accelerate>",
        },
        {
            "id": "device.gradient",
            "title": "t",
            "required": True,
            "reason": "the run ended before it",
        },
    ]
    parts = tuple(NotRun.model_validate(entry) for entry in entries)
    text = render_page([report().model_copy(update={"not_run": parts})])
    assert "1 of 3 not run" in text
    assert "<details open><summary>2 not run, 1 required" in text
    assert "required, not evaluated: the run ended before it" in text
    assert "not required: needs &lt;accelerate&gt;" in text


def test_throughput_and_changes_come_first() -> None:
    numbers = {"throughput": {"value": 400.0, "unit": "images/s"}}
    slow = report(numbers=numbers, stack=STACK | {"kernel": "6.2"}, day=9)
    history = [report(day=day) for day in range(1, 9)]
    text = render_page([*history, slow])
    first = ["Throughput", "What changed"]
    assert headings(text) == [*first, "Checks", "Over time", "Host and environment"]
    changes = text[text.index("What changed") : text.index("<h2>Checks")]
    assert changes.index("kernel: 6.1 -&gt; 6.2") < changes.index("fell to 25%")
    assert "not evaluated" not in changes
    too_few = render_page([*history[1:], slow])
    assert "400 images/s, usual 1600; not evaluated: 7 of 8 runs" in too_few


def test_the_page_is_sound_and_fetches_nothing() -> None:
    limited = {"float16": {"value": 1e-3, "unit": "1", "limit": 4e-3}}
    stack = STACK | {"kernel": "6.2"}
    reports = [report(), report(stack=stack, day=2), report(numbers=limited, day=3)]
    text = render_page([*reports, report(numbers=limited, day=4)])
    assert_sound(text)
    assert not re.search(r"https?:|<script|<link|src=|@import|url\(", text)
    assert "class=moved" in text


def test_limits_are_drawn_beside_the_values_and_in_the_courses() -> None:
    limited = {"float16": {"value": 1e-3, "unit": "1", "limit": 4e-3}}
    text = render_page([report(numbers=limited), report(numbers=limited, day=2)])
    assert "aria-label='0.001 of 0.004'" in text
    assert "<rect class=bar width=25 " in text  # a quarter of the limit, linear
    assert "class=limit" in text
    assert "limit 0.004</text>" in text


def test_the_course_of_a_load_is_drawn_and_what_was_not_measured_is_named() -> None:
    rounds = [50.0, 60.0, 70.0, 70.0]
    hot = {"temperature": {"value": 65.0, "unit": "°C", "rounds": rounds, "every": 2.5}}
    run = report(numbers=hot, ids=("health.load",), suite="health")
    (check,) = run.checks
    missing = {"not_measured": {"power": "Permission <denied>"}}
    lost = check.model_copy(update=missing)
    text = render_page([run.model_copy(update={"checks": (lost,)})])
    assert headings(text)[0] == "Under load"
    (points,) = re.findall(r"points='(.*?)'", text)
    xs, ys = [], []
    for point in points.split():
        x, y = point.split(",")
        xs.append(int(x))
        ys.append(int(y))
    assert xs == [46, 134, 222, 310]
    assert ys[0] > ys[1] > ys[2] == ys[3]  # down is up in a drawing
    assert "median, 50 to 70 in 8 s" in text
    assert "power: not evaluated: Permission &lt;denied&gt;" in text
    assert_sound(text)


def test_an_error_that_is_no_number_has_no_bar() -> None:
    limited = {"float16": {"value": float("nan"), "unit": "1", "limit": 4e-3}}
    text = render_page([report(numbers=limited)])
    assert "<td class=n>nan" in text
    assert "class=share" not in text


def test_the_axis_has_dates() -> None:
    text = render_page([report(), report(day=2), report(day=9)])
    assert re.findall(r">(2026-\d\d-\d\d)</text>", text)[:2] == [
        "2026-01-01",
        "2026-01-09",
    ]


def test_quick_and_full_runs_have_courses_of_their_own() -> None:
    suites = ["full", "quick", "full", "quick", "quick"]
    reports = [report(suite=suite, day=day) for day, suite in enumerate(suites, 1)]
    text = render_page(reports)
    assert "quick suite, 3 runs" in text
    assert "full suite, 2 runs" in text
    (first, *_) = re.findall(r"points='(.*?)'", text)
    assert len(first.split()) == 3  # the throughput of the quick runs


def test_one_report_has_no_course_and_no_comparison() -> None:
    text = render_page([report()])
    assert "Over time" not in text
    assert "nothing to compare" in text


@given(st.text(st.sampled_from("".join(NASTY) + "<>&'\"=/ ab")), st.floats())
@settings(max_examples=60)
def test_attack_no_text_of_a_report_becomes_markup(dirty: str, value: float) -> None:
    dirty = f"x{dirty}</title><script src=https://me:hunter2@h/>"
    numbers = {
        dirty: {"value": value, "unit": dirty, "limit": 1.0},
        "n": {"value": value, "unit": "1"},
    }
    reports = [
        report(
            dirty,
            ids=(dirty,),
            device={"name": dirty},
            stack={dirty: dirty + str(day)},
            numbers=numbers,
            lock=dirty,
            day=day,
            not_run=({"id": dirty, "title": dirty, "required": True, "reason": dirty},),
        )
        for day in (1, 2)
    ]
    text = render_page(reports)
    text.encode()
    assert "<script" not in text
    assert "hunter2" not in text
    assert not {sign for sign in text if unicodedata.category(sign) == "Cc"} - {"\n"}
    tags = _Tags()
    tags.feed(text)
    assert tags.stray == []
