"""The course of a load on a terminal, and what was not measured."""

from __future__ import annotations

import dataclasses
import html

import pytest

from provision.commands.smoke import SmokeResult
from provision.report.junit import junit_xml
from provision.report.model import NotRun, Report
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
        assert any("as good as then" in line for line in lines) == (earlier == IDS[:1])


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


def not_run(name: str, reason: str) -> NotRun:
    return NotRun(id=name, title="t", required=False, reason=reason)


MANY = ("identity.a", "identity.b", "device.a", "device.a@1", "device.bad")


@pytest.fixture
def many() -> Report:
    """A run of many checks of two areas, one of them bad, and of some that were left out."""
    numbers = {
        "distributions": {"value": 39.0, "unit": "count"},
        "output": {"value": 2e-7, "unit": "1", "limit": 1e-5},
        "loss": {"value": 0.5, "unit": "nats"},
    }
    left_out = [not_run("other.a", "needs a GPU")]
    for number in range(4):
        left_out.append(not_run(f"full.{number}", "of the full suite"))
    run = report("device.bad", ids=MANY, numbers=numbers)
    return run.model_copy(update={"not_run": tuple(left_out)})


def rows(shown: str) -> list[str]:
    return [line for line in shown.splitlines() if line[:4] in {"ok  ", "FAIL", "n/a "}]


def test_what_passed_is_summed_up_by_area_and_each_failure_is_a_line(
    many: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    show_report(many, Console("provision"))
    shown = capsys.readouterr().out
    failed, *others = rows(shown)
    assert failed.startswith("FAIL device.bad ")
    assert others == [
        "ok   identity 2, device 2",
        "n/a  5 checks not required here: 4 of them of the full suite (-v shows all)",
    ]
    assert " count" not in shown


def test_in_detail_each_check_is_a_line_with_what_it_measured(
    many: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    show_report(many, Console("provision", detailed=True))
    shown = capsys.readouterr().out
    checks, left_out = rows(shown)[: len(MANY)], rows(shown)[len(MANY) :]
    measured = "distributions 39, output off by 2e-07, loss 0.5 nats"
    assert checks[0] == f"ok   {'identity.a':<28} {measured}"
    assert [row.split()[1] for row in checks] == list(MANY)
    assert left_out == [
        "n/a  4 checks: not required: of the full suite",
        "n/a  other.a: not required: needs a GPU",
    ]
    assert " count" not in shown


def test_page_and_junit_count_without_a_unit(many: Report) -> None:
    assert " count" not in junit_xml(many)
    assert " count" not in render_page([many])


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
