"""One broken spec hides no other target, and is named."""

from __future__ import annotations

from pathlib import Path

from provision.commands.detect import choose_target, detect_machine
from provision.commands.machine import this_host
from provision.core.project import Project

GOOD = """\
summary = "the CPU"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"

[pip]
cutoff = 2026-11-01
requirements = ["torch==2.13.0"]
"""


def test_a_broken_spec_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "cpu-linux.toml").write_text(GOOD, encoding="utf-8")
    broken = GOOD.replace("accelerator", "acelerator")
    (tmp_path / "envs" / "arc-linux.toml").write_text(broken, encoding="utf-8")
    project = Project(tmp_path)
    found = detect_machine(project, this_host(project))
    assert choose_target(found) == "cpu-linux"
    (line,) = [line for line in found.advice if line.startswith("arc-linux")]
    assert "left out" in line
    assert "2 errors" in line
