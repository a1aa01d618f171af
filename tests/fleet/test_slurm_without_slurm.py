"""The scripts of Slurm as files: what they do before any command of Slurm's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "fleet/slurm"
# slurmd kills a health check after these seconds; `HealthCheckProgram` in slurm.conf's manual.
KILLED_AFTER = 60
pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform == "win32", reason="scripts of a shell"),
]


def health(
    folder: Path, state: Path, *without: str
) -> subprocess.CompletedProcess[str]:
    """Run the health check with few programs; that of provision ends without a verdict."""
    programs = {"sh", "hostname", "mkdir", "touch", "flock", "false"} - {*without}
    (folder / "bin").mkdir()
    for name in programs:
        (folder / "bin" / name).symlink_to(str(shutil.which(name)))
    settings = {"PROVISION_STATE": str(state), "PROVISION": "false"}
    return subprocess.run(
        [FOLDER / "health"],
        env=settings | {"PATH": str(folder / "bin")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("trouble", ["no flock", "no folder"])
def test_a_health_check_that_cannot_lock_says_so(tmp_path: Path, trouble: str) -> None:
    state = tmp_path / "state"
    if trouble == "no folder":
        state.write_text("")
    without = ["flock"] if trouble == "no flock" else []
    done = health(tmp_path, state, *without)
    assert done.returncode == 0
    assert "provision: health on " in done.stderr
    assert f"and no verdict: no lock in {state}" in done.stderr


def test_a_health_check_beside_another_ends_in_silence(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    words = ["flock", state / "lock", "sh", "-c", "echo; read -r _"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as other:  # type: ignore[call-overload]
        other.stdout.readline()
        done = health(tmp_path, state)
        other.communicate(b"\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_gate_and_quick_checks_end_before_slurmd_kills_them() -> None:
    text = (FOLDER / "settings.sh").read_text(encoding="utf-8")
    limits = re.findall(r"PROVISION_(?:GATE|TIME)_LIMIT:=(\d+)s", text)
    grace = 5  # of each, see `--time-limit`
    assert len(limits) == 2
    assert sum(int(limit) + grace for limit in limits) < KILLED_AFTER


def test_a_job_of_prove_on_a_node_without_a_target_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [FOLDER / "prove", tmp_path],
        env={"PATH": os.environ["PATH"], "PROVISION": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "of this node has to name its target" in done.stderr
    assert list(tmp_path.iterdir()) == []
