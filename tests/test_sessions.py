"""What `nox -l` lists of the sessions, which are too many for one list."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from provision.sessions import listed

ROOT = Path(__file__).parents[1]
TARGETS = {path.stem for path in (ROOT / "envs").glob("*.toml")}


def test_only_a_list_leaves_sessions_out() -> None:
    assert listed(["-s", "tests", "--", "-l"]) is None
    assert listed(["-l", "-k", "arc"]) is None
    assert listed(["-l"]) == set()
    assert listed(["--list", "-t", "build", "run"]) == {"build", "run"}
    assert listed(["-l", "--tags=smoke"]) == {"smoke"}
    assert listed(["-l", "-t", "biuld"]) == set()


@pytest.mark.machine
@pytest.mark.parametrize(
    ("words", "there", "absent"),
    [
        (["-t", "build"], {f"build-{target}" for target in TARGETS}, None),
        (
            [],
            {"targets", "build-auto", "VERB-TARGET", "tests"},
            {"wine", "build-cpu-linux"},
        ),
        (
            ["-k", "cpu-linux or wine"],
            {"run-cpu-linux", "wine", "tests"},
            {"VERB-TARGET"},
        ),
    ],
)
def test_a_list_has_what_was_asked_for(
    words: list[str], there: set[str], absent: set[str] | None
) -> None:
    """Without ``absent``, nothing else is listed."""
    command = [sys.executable, "-m", "nox", "-f", ROOT / "noxfile.py", "-l", *words]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = set(re.findall(r"^[-*] (\S+)", text, re.MULTILINE))
    assert there <= names
    assert names & absent == set() if absent else names == there
