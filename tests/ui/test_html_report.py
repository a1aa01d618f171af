"""The page: everything is there, nothing is fetched, and work grows with the history."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from provision.ui.html_report import render_page
from tests.calls import count_calls
from tests.report.test_regressions import STACK, report


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.stray: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of SVG that closes itself."""

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.stray.append(tag)


def test_the_page_tells_verdict_host_and_checks() -> None:
    text = render_page([report(), report(failed=("device.matmul",))])
    for words in ("1 of 2 failed", "Arc A770", "compute-runtime", "25.18", "device.matmul raises"):
        assert words in text
    assert "check-broke" not in text  # codes are for machines
    assert "worked and fails now" in text


def test_the_page_is_sound_and_fetches_nothing() -> None:
    text = render_page([report(), report(stack=STACK | {"kernel": "6.2"})])
    tags = _Tags()
    tags.feed(text)
    assert (tags.stray, tags.open) == ([], [])
    assert not re.search(r"https?:|<script|<link|src=|@import", text)
    assert "class=moved" in text


def test_what_a_report_says_cannot_become_markup() -> None:
    text = render_page([report(stack={"kernel": "<script>alert(1)</script>"})])
    assert "<script" not in text


def test_one_report_has_no_course_and_no_comparison() -> None:
    text = render_page([report()])
    assert "Over time" not in text
    assert "Since the last good report" not in text


def test_a_long_history_takes_work_in_proportion() -> None:
    ids = tuple(f"check.{number}" for number in range(40))
    reports = [report(speed=1000.0 + number, ids=ids) for number in range(200)]
    assert render_page(reports).count("<figure>") == 40
    few, more, many = (count_calls(lambda n=n: render_page(reports[:n])) for n in (50, 100, 200))
    assert many - more <= 2.02 * (more - few)
