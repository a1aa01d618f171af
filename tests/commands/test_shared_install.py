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


def call(shared: tuple[Lab, Path], verb: str, *words: str) -> tuple[int, str]:
    lab, home = shared
    argv = [
        *(_OTHER if os.getuid() == 0 else []),
        sys.executable,
        "-m",
        "provision",
        verb,
        TARGET,
    ]
    argv += ["--project", str(lab.project.root), *words]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    env |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        argv, env=env, cwd=home, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_smoke_shows_its_result_and_keeps_the_report_at_the_users(
    shared: tuple[Lab, Path],
) -> None:
    code, text = call(shared, "smoke")
    assert (code, "1 passed" in text) == (Exit.OK, True), text
    lab, home = shared
    (kept,) = (home / ".local" / "state" / "provision").rglob("*.json")
    assert json.loads(kept.read_text())["target"] == TARGET
    assert len(list((lab.home / "reports").iterdir())) == 1  # that of the build
    code, text = call(shared, "smoke", "--if-driver-changed")
    assert (code, "all passed then" in text) == (Exit.OK, True), text


def test_others_use_it_and_what_would_change_it_says_why_not(
    shared: tuple[Lab, Path],
) -> None:
    home = shared[0].home
    before = sorted(home.iterdir())
    for words in (["verify", "--deep"], ["build"]):
        code, text = call(shared, *words)
        assert code == Exit.OK, text
    program = "import alpha; print(alpha.__file__)"
    code, text = call(shared, "run", "--", "python", "-c", program)
    assert (code, str(home) in text) == (Exit.OK, True), text
    for verb in ("rollback", "clean"):
        code, text = call(shared, verb)
        assert code in {Exit.OK, Exit.USAGE, Exit.TOOL}, text
        assert "Traceback" not in text
    assert sorted(home.iterdir()) == before
