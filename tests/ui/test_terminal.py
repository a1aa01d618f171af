"""What each verb shows on terminals of several widths, and which stream gets which bytes."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import io
import os
import pty
import re
import select
import struct
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.cli.main import main
from provision.commands.lock import ArtifactChange, LockResult
from provision.commands.smoke import SmokeResult
from provision.report.regressions import compare_reports
from provision.ui import results as views
from provision.ui.console import Console
from provision.ui.smoke import show_smoke
from tests.lab import open_lab
from tests.report.fleets import change, write_fleet
from tests.report.test_regressions import report
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab import Lab

ROOT = Path(__file__).parents[2]
ESCAPE = re.compile("\x1b\\[[0-9;]*m")
WIDTHS = [40, 120]
# What a table says of columns that a narrow terminal has no room for.
LEFT_OUT = "a wider terminal shows also: platform, last checks, what it is … required by, index"


class Terminal(io.StringIO):
    """A terminal of so many columns, which keeps what is written."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self._ends = os.openpty()
        fcntl.ioctl(
            self._ends[1], termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0)
        )

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._ends[1]

    def close(self) -> None:
        for end in self._ends:
            os.close(end)
        super().close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("terminal")) as made:
        made.build()
        bad = 'accelerator = "gpu"\nplatform = "linux-64"\npython = "3.11"\nsummary = "x"\n'
        (made.project.specs / "bad.toml").write_text(bad, encoding="utf-8")
        paths = write_fleet(made.project.root / "verdicts", 9, dt.datetime.now(dt.UTC))
        change(
            paths[3],
            verdict="remove",
            code="op-fails",
            reason="device.matmul fails " * 9,
        )
        change(paths[5], stack={"driver nvidia": "575.57.08"})
        log = "RuntimeError: Found no NVIDIA driver on your system.\n"
        (made.project.root / "train.log").write_text(log, encoding="utf-8")
        yield made


def read_until(end: int, text: str) -> str:
    """Return what a terminal or a pipe shows up to a text; a terminal's comes a little later."""
    found = b""
    while text not in ESCAPE.sub("", found.decode(errors="replace")):
        assert select.select([end], [], [], 60)[0], found
        found += os.read(end, 65536)
    return found.decode(errors="replace")


def both(
    show: Callable[[], object], columns: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """Return what is shown on a terminal and where it is piped: results, notes and errors."""
    said = []
    for screen in (Terminal(columns), io.StringIO()):
        with screen, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", screen)
            show()
            said.append(ESCAPE.sub("", screen.getvalue()))
    return said[0], said[1]


def judge(
    show: Callable[[], object],
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    whole: bool = True,
) -> tuple[str, str]:
    """Fail where a line is too wide, or a word is cut; return what was shown.

    ``whole``: fail where anything is left out, too.
    """
    commands = set[str]()
    command = Console.command

    def noted(self: Console, text: str) -> None:
        commands.add(f"  {text}")
        command(self, text)

    monkeypatch.setattr(Console, "command", noted)
    narrow, piped = both(show, columns, monkeypatch)
    for line in narrow.splitlines():
        # A path or a name that is longer than the line stays whole, as does what is to be copied.
        assert len(line) <= columns or len(line.split()) <= 2 or line in commands, line
    words, all_words = narrow.split(), piped.split()
    cut = set(words) - set(all_words)
    if not whole:
        cut -= set(LEFT_OUT.split())
    assert not {word for word in cut if not word.endswith(":")}, (
        cut
    )  # names of a record
    if not whole:
        return narrow, piped
    missing = set(all_words) - set(words)
    heads = set(piped.splitlines()[0].split()) | {
        "target",
        "verdict",
        "why",
    }  # as those names
    assert missing <= heads, missing
    return narrow, piped


@pytest.mark.machine
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("targets",), ROOT),
        (("detect",), ROOT),
        (("lock", "--check"), ROOT),
        (("explain", "torch", "-t", "arc-linux"), ROOT),
        (("explain", "numpy"), ROOT),
        (("targets",), None),
        (("doctor", "--target", TARGET), None),
        (("doctor", "--log", "train.log"), None),
        (("verify", TARGET, "--deep", "-q"), None),
        (("build", TARGET), None),
        (("clean", TARGET), None),
        (("fleet", "report", "verdicts"), None),
        (("evidence", "verify", "train.log"), None),
    ],
)
def test_each_verb_fits_its_terminal(
    lab: Lab,
    words: tuple[str, ...],
    where: Path | None,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(lab.project.root)
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    words = (words[0], "--project", str(where or lab.project.root), *words[1:])
    if words[0] == "doctor" and len(words) == 3:
        words = words[:1]
    whole = words[0] != "targets" and words[-1] != "numpy"  # which are tables
    judge(lambda: main(words), columns, monkeypatch, whole=whole)


def test_targets_is_one_row_each_in_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, _ = both(lambda: main(["targets", "--project", str(ROOT)]), 80, monkeypatch)
    names = sorted(path.stem for path in (ROOT / "envs").glob("*.toml"))
    rows = shown.splitlines()[1 : 1 + len(names)]
    assert [row.split()[0] for row in rows] == names
    assert len(shown.splitlines()) < len(names) + 6


def versions(count: int) -> LockResult:
    names = [f"distribution-number-{n}" for n in range(count)]
    return LockResult(
        TARGET,
        count,
        tuple(
            ArtifactChange(name, "1.0.0", "2.0.0+cu128", tuple(names)) for name in names
        ),
        differs=True,
    )


def smoke_result() -> SmokeResult:
    parts: dict[str, Any] = {
        "numbers": {
            f"number {n}": {"value": 1.5, "unit": "images/s"} for n in range(5)
        },
        "ids": ("device.matmul", "offload.tied_parameters", "rotary.scripted_half"),
    }
    missing = {
        "id": "autocast.half",
        "title": "half precision",
        "required": True,
        "reason": "the process died of SIGSEGV " * 3,
    }
    now = report(
        ("offload.tied_parameters",),
        day=2,
        not_run=(missing,),
        stack={"kernel": "6.8", "driver xe": "6.8"},
        **parts,
    )
    return SmokeResult(now, compare_reports([report(**parts)], now))


VIEWS: dict[str, tuple[Any, Any]] = {
    "lock": (views.show_lock, versions(4)),
    "smoke": (show_smoke, smoke_result()),
}


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", VIEWS)
def test_each_view_fits_its_terminal(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    show, result = VIEWS[name]
    judge(lambda: show(result, Console("provision")), columns, monkeypatch)


def test_a_table_too_wide_becomes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        ("cpu-linux", "proven", "a target that works anywhere"),
        ("max-linux", "no", "Max"),
    ]
    table = ("target", "built", "what it is")
    narrow, piped = judge(lambda: Console("p").table(table, rows), 30, monkeypatch)
    assert narrow == (
        "target: cpu-linux\nbuilt: proven\nwhat it is: a target that\n"
        "    works anywhere\n\ntarget: max-linux\nbuilt: no\nwhat it is: Max\n\n"
    )
    assert piped == (
        "target     built   what it is\ncpu-linux  proven  a target that works anywhere\n"
        "max-linux  no      Max\n"
    )
    wrapped, _ = judge(lambda: Console("p").table(table, rows), 40, monkeypatch)
    assert wrapped.splitlines()[1:3] == [
        "cpu-linux  proven  a target that works",
        "                   anywhere",
    ]


def test_records_leave_out_what_a_narrow_table_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("dpcpp-cpp-rt-of-a-long-name", "2026-10-16", "ipex-llm-linux")]
    table = ("package", "uploaded", "targets")
    shown, piped = both(
        lambda: Console("p").table(table, rows, spare=("uploaded",)), 40, monkeypatch
    )
    assert shown == (
        "package: dpcpp-cpp-rt-of-a-long-name\ntargets: ipex-llm-linux\n\n"
        "a wider terminal shows also: uploaded\n"
    )
    assert "2026-10-16" in piped


def test_a_command_in_a_sentence_is_not_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "its lock is stale, so run `provision lock cpu-linux` and then build it"
    narrow, _ = judge(lambda: Console("p").line(text), 40, monkeypatch)
    assert "`provision lock cpu-linux`" in narrow


def test_what_an_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding="ascii", write_through=True) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        Console("p").line("65 °C")
        assert written.getvalue() == b"65 \\xb0C\n"


@pytest.mark.machine
@pytest.mark.parametrize(
    ("settings", "terminals", "styled"),
    [
        ({}, "", ""),
        ({}, "out", "out"),
        ({}, "out err", "out err"),
        ({"NO_COLOR": "1"}, "out err", ""),
        ({"FORCE_COLOR": "1"}, "", "out err"),
        ({"TERM": "dumb"}, "out err", ""),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, "", ""),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "out err", ""),
    ],
)
def test_the_bytes_of_each_stream(
    lab: Lab,
    settings: dict[str, str],
    terminals: str,
    styled: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``lock --check`` has a result on stdout, and an error on stderr."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm-256color"} | settings).items():
        monkeypatch.setenv(name, value)
    ends = {}
    with contextlib.ExitStack() as stack:
        for name in ("out", "err"):
            is_terminal = name in terminals.split()
            ends[name], theirs = pty.openpty() if is_terminal else os.pipe()
            stream = stack.enter_context(os.fdopen(theirs, "w", encoding="utf-8"))
            monkeypatch.setattr(sys, f"std{name}", stream)
        assert main(["lock", "--check", "--project", str(lab.project.root)]) == 2
        for name, says in (("out", "tiny: fresh"), ("err", "error: ")):
            found = read_until(ends[name], says)
            assert ("\x1b" in found) == (name in styled.split()), found
            os.close(ends[name])


@pytest.mark.machine
def test_quiet_leaves_the_result_and_what_matters(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["smoke", TARGET, "--project", str(lab.project.root)]
    assert main(words) == 0
    told = capsys.readouterr()
    assert "· the quick checks" in told.err
    assert "quick suite on toy" in told.out
    assert "·" not in told.out
    assert main([*words, "-q"]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert "quick suite on toy: 1 required, 1 passed" in quiet.out
    assert main(["lock", "--check", "-q", "--project", str(lab.project.root)]) == 2
    assert "error: " in capsys.readouterr().err


def test_a_mark_before_a_name_stays_in_its_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, _ = both(lambda: main(["detect", "--project", str(ROOT)]), 120, monkeypatch)
    rows = shown.splitlines()
    head = next(number for number, row in enumerate(rows) if "verdict" in row)
    assert {row[:3] for row in rows[head:] if row[3:4].strip()} <= {"-> ", "   "}
