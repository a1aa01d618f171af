"""Exit codes and results where a standard stream is closed, full, or its reader has gone."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.lab import open_lab
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("streams")) as made:
        made.build()
        yield made


def shell(lab: Lab, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    verb, _, rest = words.partition(" ")
    line = f'"$0" -I -m provision {verb} --project "$1" {rest} {redirection}'
    argv = ["/bin/sh", "-c", line, sys.executable, str(lab.project.root)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("redirection", ["2>/dev/full", "0<&- 1>&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"build {TARGET}", 0),
        (f"verify {TARGET} --deep", 0),
        ("verify nothing", 2),
        (f"run {TARGET} sh -c 'exit 7'", 7),
    ],
)
def test_attack_closed_streams(
    lab: Lab, words: str, code: int, redirection: str
) -> None:
    assert shell(lab, words, redirection).returncode == code


@pytest.mark.parametrize(
    "options", [["--json"], pytest.param([], marks=pytest.mark.slow)]
)
def test_a_reader_that_has_gone_changes_no_code(lab: Lab, options: list[str]) -> None:
    lab.relock(lab.wheel("alpha", "2.0"), lab.wheels[1])
    argv = [sys.executable, "-I", "-m", "provision", "verify", "--project"]
    with subprocess.Popen(
        [*argv, lab.project.root, TARGET, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        (note,) = started.stderr.read().splitlines()  # of the new lock
        assert note.startswith(b"! tiny: the environment in use is not that of ")
        assert started.wait() == 1  # that another alpha is locked


@pytest.mark.parametrize("words", ["targets --json", "targets"])
def test_a_result_that_cannot_be_written_is_an_error(lab: Lab, words: str) -> None:
    done = shell(lab, words, "> /dev/full")
    assert done.returncode == 3
    assert "No space left" in done.stderr
