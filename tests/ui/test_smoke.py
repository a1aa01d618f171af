"""The course of a load on a terminal, and what was not measured."""

from __future__ import annotations

import dataclasses
import html

import pytest

from provision.commands.smoke import SmokeResult
from provision.report.junit import junit_xml
from provision.report.model import NotRun
from provision.ui.console import Console
from provision.ui.courses import sparkline
from provision.ui.html_report import render_page
from provision.ui.smoke import show_comparison, show_report, show_smoke
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


@pytest.mark.parametrize(
    ("earlier", "shown"),
    [
        (
            IDS[:1],
            f"first run of {len(IDS) - 1} checks here: nothing to compare with yet",
        ),
        (
            ("other.check",),
            "first run of these checks here: nothing to compare with yet",
        ),
    ],
)
def test_first_results_are_no_alarm(
    capsys: pytest.CaptureFixture[str], earlier: tuple[str, ...], shown: str
) -> None:
    after = report(day=2)
    found = dataclasses.replace(compared(report(ids=earlier), after), findings=())
    for detailed in (False, True):
        show_comparison(found, Console("provision", detailed=detailed))
        lines = capsys.readouterr().out.splitlines()
        names = f": {', '.join(found.new)}" if detailed else ""
        assert shown.replace("1 checks", "1 check") + names in lines
        assert not any(line.startswith("!") for line in lines)
        assert any("as good as" in line for line in lines) == (earlier == IDS[:1])


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


@pytest.mark.parametrize("detailed", [False, True])
def test_what_passed_is_summed_up_by_area_and_each_failure_is_a_line(
    capsys: pytest.CaptureFixture[str], *, detailed: bool
) -> None:
    numbers = {
        "distributions": {"value": 39.0, "unit": "count"},
        "output": {"value": 2e-7, "unit": "1", "limit": 1e-5},
        "loss": {"value": 0.5, "unit": "nats"},
    }
    ids = ("identity.a", "identity.b", "device.a", "device.a@1", "device.bad")
    left_out = tuple(
        NotRun(id=f"full.{n}", title="t", required=False, reason="of the full suite")
        for n in range(4)
    )
    other = NotRun(id="other.a", title="t", required=False, reason="needs a GPU")
    run = report("device.bad", ids=ids, numbers=numbers).model_copy(
        update={"not_run": (other, *left_out)}
    )
    show_report(run, Console("provision", detailed=detailed))
    shown = capsys.readouterr().out
    rows = [line for line in shown.splitlines() if line[:4] in {"ok  ", "FAIL", "n/a "}]
    of_full = "n/a  4 checks: not required: of the full suite"
    if detailed:
        measured = "distributions 39, output off by 2e-07, loss 0.5 nats"
        assert rows[0] == f"ok   {'identity.a':<28} {measured}"
        assert [row[5:15].strip() for row in rows[:5]] == [each[:10] for each in ids]
        assert rows[5:] == [of_full, "n/a  other.a: not required: needs a GPU"]
    else:
        assert rows[0].startswith("FAIL device.bad ")
        assert rows[1:] == [
            "ok   identity 2, device 2",
            "n/a  5 checks not required here: 4 of them of the full suite (-v shows all)",
        ]
    assert " count" not in shown + junit_xml(run) + render_page([run])


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
        NotRun(id="compile.step", title="t", required=True, reason="the run ended"),
        NotRun(id="offload.cpu", title="t", required=False, reason="no accelerate"),
    )
    run = made.model_copy(update={"checks": (check,), "not_run": entries})
    show_report(run, Console("provision", detailed=True))
    screen, page, junit = capsys.readouterr().out, render_page([run]), junit_xml(run)
    for name, words in (
        ("lstm float16", "not offered: torch's table"),
        ("power", "not evaluated: Permission denied"),
        ("compile.step", "required, not evaluated: the run ended"),
        ("offload.cpu", "not required: no accelerate"),
    ):
        for text in (screen, html.unescape(page), junit):
            assert words in text
            assert name.rpartition(".")[2] in text
    for text in (screen, page, junit):
        assert text.count("not offered") == 1
        assert "not measured" not in text.lower()
    # A number without a limit was measured: that is another thing.
    assert "colspan=2>no limit" in page
