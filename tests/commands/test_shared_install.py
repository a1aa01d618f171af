"""One user's read-only installation, used by others: as on a cluster's login node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import Exit
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(
        sys.platform == "win32", reason="rights of POSIX; modules are of clusters"
    ),
]
# root may write anywhere. This user may read what root may, so that a Python in root's home runs.
_OTHER = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
]


@pytest.fixture
def shared(lab: Lab, tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """A built project that its user cannot write, and the home of that user."""
    lab.build()
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    folders = [
        lab.project.root,
        *(p for p in lab.project.root.rglob("*") if p.is_dir()),
    ]
    for folder in folders:
        folder.chmod(0o555)
    yield lab, home
    for folder in folders:
        folder.chmod(0o755)


# Verbs one after another, in one process of that user: a line of JSON for the end of each.
VERBS = """
import contextlib, io, json, sys
from provision.cli.main import main
for line in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(line)
    print(json.dumps([code, said.getvalue()]))
"""


def as_other(shared: tuple[Lab, Path], *argv: str) -> str:
    """Run a command as that user; return what it prints."""
    home = shared[1]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    env |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    words = [*(_OTHER if os.getuid() == 0 else []), sys.executable, *argv]
    done = subprocess.run(
        words, env=env, cwd=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def call(shared: tuple[Lab, Path], *lines: str) -> list[tuple[int, str]]:
    """Run verbs as that user; return the code and the words of each."""
    root = str(shared[0].project.root)
    words = []
    for line in lines:
        verb, *options = line.split()
        words.append([verb, TARGET, "--project", root, *options])
    printed = as_other(shared, "-c", VERBS, json.dumps(words))
    return [tuple(json.loads(line)) for line in printed.splitlines()]


def test_smoke_shows_its_result_and_keeps_the_report_at_the_users(
    shared: tuple[Lab, Path],
) -> None:
    (code, text), again = call(shared, "smoke", "smoke --if-driver-changed")
    assert code == Exit.OK, text
    assert "1 passed" in text, text
    assert again[0] == Exit.OK, again
    assert "all passed then" in again[1], again
    lab, home = shared
    (kept,) = (home / ".local" / "state" / "provision").rglob("*.json")
    assert json.loads(kept.read_text())["target"] == TARGET
    assert len(list((lab.home / "reports").iterdir())) == 1  # that of the build


def test_others_use_it_and_what_would_change_it_says_why_not(
    shared: tuple[Lab, Path],
) -> None:
    home = shared[0].home
    before = sorted(home.iterdir())
    lines = ("verify --deep", "build", "rollback", "clean")
    verified, built, *refused = call(shared, *lines)
    assert verified[0] == built[0] == Exit.OK, (verified, built)
    for code, text in refused:
        assert code in {Exit.OK, Exit.USAGE, Exit.TOOL}, text
        assert "Traceback" not in text
    program = ("--", "python", "-c", "import alpha; print(alpha.__file__)")
    verb = ("-m", "provision", "run", TARGET, "--project", str(home.parents[1]))
    assert str(home) in as_other(shared, *verb, *program)
    assert sorted(home.iterdir()) == before
