"""The course of a load on a terminal, and what was not measured."""

from __future__ import annotations

import html

import pytest

from provision.commands.smoke import SmokeResult
from provision.report.junit import junit_xml
from provision.report.model import NotRun
from provision.ui.console import Console
from provision.ui.courses import sparkline
from provision.ui.html_report import render_page
from provision.ui.smoke import show_report, show_smoke
from tests.report.test_regressions import IDS, compared, report


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([1.0], "▁"),
        ([5.0, 5.0, 5.0], "▁▁▁"),
        ([0.0, 7.0], "▁█"),
        ([float(each) for each in range(8)], "▁▂▃▄▅▆▇█"),
        ([0.0] * 400 + [1.0] * 400, "▁" * 20 + "█" * 20),
    ],
)
def test_a_course_is_drawn_in_a_line(values: list[float], drawn: str) -> None:
    assert sparkline(values) == drawn


def test_what_vanished_is_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = report(), report(ids=IDS[:1], day=2)
    show_smoke(SmokeResult(after, compared(before, after)), Console("provision"))
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"vanished since {before.started}: {IDS[1]}"
    page = render_page([before, after])
    assert page.index(f"Vanished since {before.started}") < page.index("suite on")


def test_courses_and_reasons_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    hot = {
        "temperature": {
            "value": 65.0,
            "unit": "°C",
            "rounds": [50.0, 65.0, 80.0],
            "every": 1.0,
        }
    }
    run = report(numbers=hot, ids=("health.load",), suite="health")
    check = run.checks[0].model_copy(
        update={"not_measured": {"power": "Permission denied"}}
    )
    show_report(run.model_copy(update={"checks": (check,)}), Console("provision"))
    shown = capsys.readouterr().out
    assert "temperature" in shown
    assert "50 to 80 °C" in shown
    assert "power of health.load: not evaluated: Permission denied" in shown


def test_screen_page_and_junit_say_alike_what_is_not_offered_and_not_evaluated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = report(ids=("operators.options",))
    gaps = {
        "not offered: lstm float16": "torch's table",
        "power": "Permission denied",
    }
    check = made.checks[0].model_copy(update={"not_measured": gaps})
    entries = (
        NotRun(id="compile.step", title="t", owed=True, reason="the run ended"),
        NotRun(id="offload.cpu", title="t", owed=False, reason="no accelerate"),
    )
    run = made.model_copy(update={"checks": (check,), "not_run": entries})
    show_report(run, Console("provision"))
    screen, page, junit = capsys.readouterr().out, render_page([run]), junit_xml(run)
    for name, words in (
        ("lstm float16", "not offered: torch's table"),
        ("power", "not evaluated: Permission denied"),
        ("compile.step", "owed, not evaluated: the run ended"),
        ("offload.cpu", "not evaluated: no accelerate"),
    ):
        for text in (screen, html.unescape(page), junit):
            assert words in text
            assert name.rpartition(".")[2] in text
    for text in (screen, page, junit):
        assert text.count("not offered") == 1
        assert "not measured" not in text.lower()
    # A number without a limit was measured: that is another thing.
    assert "colspan=2>no limit" in page
