"""What people see: the real command in a terminal of 40, 80 and 200 columns, each screen of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pyte
import pytest

from tests.lab import Lab, open_lab
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.machine
PATIENCE = 120.0  # seconds without a change of the screen, on a busy machine
# A suite that tells what smoke/engine/worker.py tells, and waits for a file between two checks.
SUITE = """
import json, pathlib, sys, time
words = sys.argv
journal = open(words[words.index("--journal") + 1], "a", buffering=1)
heads = [{"id": f"area.check-{n}", "title": "t", "stands_for": "s"} for n in range(1, 5)]
tell = lambda **event: journal.write(json.dumps(event) + "\\n")
tell(required=heads)
checks = []
for head in heads:
    tell(start=head)
    gate = pathlib.Path(__file__).with_name(head["id"])
    while gate.exists():
        time.sleep(0.02)
    number = {"largest error": {"value": 1e-7, "unit": "1"}}
    end = {"outcome": "passed", "finding": None}
    if head["id"] == "area.check-2":
        texts = {"code": "noisy", "symptom": "it hums", "cause": "", "remedy": "", "evidence": []}
        end = {"outcome": "warned", "finding": texts | {"level": "warning"}}
    checks.append(head | end | {"seconds": 0.5, "numbers": number})
    tell(result=checks[-1])
json.dump({"schema": 2, "suite": "quick", "target": "tiny", "python": "3", "torch": None,
           "device": {"name": "toy"}, "started": "2026-01-01T00:00:00Z", "seconds": 2.0,
           "checks": checks}, open(words[2], "w"))
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A project with a file that takes two seconds to fetch, and a suite that can be halted."""
    with open_lab(tmp_path_factory.mktemp("terminal")) as made:
        (made.project.root / "smoke" / "run.py").write_text(SUITE, encoding="utf-8")
        noise = "#" + os.urandom(600_000).hex()
        made.relock(made.wheel("alpha", text=noise), made.wheel("beta", index="vendor"))
        made.index.rate = 600_000.0
        config = made.project.root / "pip.conf"
        config.write_text(
            f"[global]\nindex-url = {made.index.url}/default/\n", encoding="utf-8"
        )
        yield made


@pytest.fixture(scope="module")
def built(lab: Lab) -> Lab:
    lab.index.rate = 0
    lab.build()
    return lab


class Screen(pyte.Screen):
    """A screen that remembers each line which it had to part itself."""

    def __init__(self, columns: int) -> None:
        self.parted: list[str] = []
        super().__init__(columns, 60)

    def draw(self, data: str) -> None:
        if self.cursor.x + len(data) > self.columns:
            self.parted.append(data)
        super().draw(data)


class Terminal:
    """A command in a terminal: what was on the screen, a text for each change."""

    def __init__(self, lab: Lab, columns: int, *words: str, **variables: str) -> None:
        self.screen = Screen(columns)
        self._stream = pyte.ByteStream(self.screen)
        self.screens: list[str] = [""]
        self.raw = b""
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "provision", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=lab.project.root,
            env=environment(lab, str(columns)) | variables,
            # A shell lets its jobs in the background ignore it, and they would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        os.close(theirs)

    def read(self) -> bool:
        """Read on; return whether the command goes on."""
        ready, _, _ = select.select([self._own], [], [], PATIENCE)
        assert ready, f"nothing was shown for {PATIENCE:.0f} s:\n{self.screens[-1]}"
        try:
            piece = os.read(self._own, 1 << 16)
        except OSError:  # EIO: it has ended
            return False
        self.raw += piece
        self._stream.feed(piece)
        self.screens.append("\n".join(map(str.rstrip, self.screen.display)).rstrip())
        return bool(piece)

    def until(self, pattern: str) -> None:
        """Read until a screen has shown a pattern."""
        while not any(re.search(pattern, text) for text in self.screens):
            assert self.read(), f"{pattern} was never shown:\n{self.screens[-1]}"

    def to_the_end(self) -> str:
        """Read to the end, and return what stays."""
        while self.read():
            pass
        self.process.wait()
        os.close(self._own)
        assert not self.screen.cursor.hidden
        assert not re.search(r"#|---|of 4|left$", self.screens[-1], re.MULTILINE), (
            "a bar is left"
        )
        return self.screens[-1]


def environment(lab: Lab, cache: str) -> dict[str, str]:
    root = lab.project.root
    return {
        "PATH": os.defpath,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "HOME": str(root.parent),
        "PIP_CONFIG_FILE": str(root / "pip.conf"),
        "UV_CACHE_DIR": str(root.parent / f"cache-{cache}"),
    }


@contextlib.contextmanager
def halted(lab: Lab, check: str) -> Iterator[None]:
    """Let a check not end before the block does."""
    gate = lab.project.root / "smoke" / check
    gate.touch()
    try:
        yield
    finally:
        gate.unlink()


def words(terminal: Terminal) -> set[str]:
    """Return all that looks like a word and was shown as progress."""
    shown = (text.partition("\nquick suite")[0] for text in terminal.screens)
    found = {word for text in shown for word in re.findall(r"[a-z][a-z0-9.-]*", text)}
    # Whether these are seen is a matter of time.
    fleeting = {"bytes", "left", "k", "s", *(f"area.check-{n}" for n in range(1, 5))}
    return found - fleeting


def build(lab: Lab, columns: int) -> Terminal:
    shutil.rmtree(lab.home, ignore_errors=True)
    return Terminal(lab, columns, "build", TARGET)


def test_a_build_shows_bytes_a_rate_the_time_left_and_each_check(lab: Lab) -> None:
    wide = build(lab, 200)
    wide.to_the_end()
    with halted(lab, "area.check-1"):
        terminal = build(lab, 40)
        terminal.until(
            r"(?s)downloading from .*\d+ [kM]?B of 1 MB, \d+ kB/s, \d+:\d\d left"
        )
        terminal.until(r"0 of 4 area.check-1")
        gate = halted(lab, "area.check-3")
        gate.__enter__()
    terminal.until(r"2 of 4 area.check-3")
    assert re.search(r"^warn area.check-2 +0.5 s", terminal.screens[-1], re.MULTILINE)
    assert not re.search("^ok", terminal.screens[-1], re.MULTILINE)
    gate.__exit__(None, None, None)
    text = terminal.to_the_end()
    assert terminal.process.returncode == 0
    assert re.search(r"1\s+MB,\s+\d+\s+kB/s,\s+\d+\.\d s", text)
    assert re.search("^ok   area 3$", text, re.MULTILINE)
    assert text.count("area.check") == 1, "the result repeats what was shown"
    # Commands to be copied are not parted; the terminal goes on in the next row.
    assert not [line for line in terminal.screen.parted if "/bin/" not in line]
    assert words(terminal) - words(wide) == set(), "words are cut"


def test_an_interrupt_leaves_a_clean_terminal(built: Lab) -> None:
    with halted(built, "area.check-2"):
        terminal = Terminal(built, 80, "smoke", TARGET)
        terminal.until(r"1 of 4 area.check-2")
        terminal.process.send_signal(signal.SIGINT)
        text = terminal.to_the_end()
    assert terminal.process.returncode == 130
    assert text.startswith("error: interrupted"), "what stopped is no progress"


def test_off_a_terminal_each_step_is_one_line_once(lab: Lab) -> None:
    shutil.rmtree(lab.home, ignore_errors=True)
    argv = [sys.executable, "-I", "-m", "provision", "build", TARGET]
    done = subprocess.run(
        argv,
        cwd=lab.project.root,
        env=environment(lab, "piped"),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    steps = [line.rstrip() for line in done.stderr.splitlines()]
    assert f"· the quick checks of {TARGET}" in steps
    assert all(step.startswith("· ") for step in steps)
    assert len({*steps}) == len(steps) > 4
    assert not [step for step in steps if re.search(r"\d s$", step)]
    shown = done.stdout.splitlines()
    assert shown[:2] == [
        f"warn {'area.check-2':<28} largest error 1e-07",
        "ok   area 3",
    ]
    assert done.stdout.count("4 required") == 1, "a verdict is said twice"


def test_off_a_terminal_a_long_run_prints_each_area_as_it_ends(built: Lab) -> None:
    suite = built.project.root / "smoke" / "run.py"
    areas = "f\"{'area' if n < 3 else 'other'}.check"
    suite.write_text(SUITE.replace('f"area.check', areas), encoding="utf-8")
    lines = []
    try:
        with halted(built, "other.check-4"):
            process = piped(built, "--full")
            # The other area still runs: this line did not wait for the end.
            while not lines or "area:" not in lines[-1]:
                lines.append(process.stderr.readline().rstrip())
                assert lines[-1], "it ended without a word"
        lines += process.communicate()[1].splitlines()
        quick = piped(built).communicate()[1]
    finally:
        suite.write_text(SUITE, encoding="utf-8")
    assert lines[-3:] == [
        f"· the full checks of {TARGET}",
        "· area: 1 passed, 1 warned (area.check-2), 1.0 s",
        "· other: 2 passed, 1.0 s",
    ]
    assert "quick checks" in quick
    assert "area:" not in quick, "a run of seconds needs no more than its step"


COUNTING = """
import provision.ui.progress_lines
provision.ui.progress_lines.INTERVAL = 0.2
from provision.cli.main import main
main()
"""
OFTEN = ("-c", COUNTING)


def test_off_a_terminal_a_download_that_lasts_counts_its_bytes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.index, "rate", 600_000.0)
    shutil.rmtree(lab.home, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-I", *OFTEN, "build", TARGET],
        cwd=lab.project.root,
        env=environment(lab, "counted"),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    line = r"^· downloading from the default index: \d+ [kM]?B of 1 MB, \d+ s$"
    counts = re.findall(line, done.stderr, re.MULTILINE)
    assert len(set(counts)) > 2


def test_off_a_terminal_a_run_that_lasts_counts_its_checks_now_and_then(
    built: Lab,
) -> None:
    line = ""
    with halted(built, "area.check-3"):
        process = piped(built, start=OFTEN)
        while "check-3" not in line:
            line = process.stderr.readline().rstrip()
            assert line, "it ended without a count"
    rest = process.communicate()[1]
    assert re.fullmatch(r"· 2 of 4 checks, \d+ s, now area\.check-3", line)
    assert "4 of 4 checks" not in rest, "the result says so"


def piped(
    lab: Lab, *options: str, start: Sequence[str] = ("-m", "provision")
) -> subprocess.Popen[str]:
    """Start the checks with their output in a pipe."""
    return subprocess.Popen(
        [sys.executable, "-I", *start, "smoke", TARGET, *options],
        cwd=lab.project.root,
        env=environment(lab, "piped"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_a_dumb_terminal_and_no_color_get_no_escapes_that_they_cannot_take(
    built: Lab,
) -> None:
    dumb = Terminal(built, 80, "smoke", TARGET, TERM="dumb")
    assert "· the quick checks of tiny" in dumb.to_the_end()
    assert b"\x1b" not in dumb.raw
    plain = Terminal(built, 80, "smoke", TARGET, NO_COLOR="1")
    plain.to_the_end()
    assert b"area.check-2" in plain.raw
    assert not re.search(rb"\x1b\[[1-9][0-9;]*m", plain.raw)
