"""The first change that CONTRIBUTING tells, typed in a fresh copy of this repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT, commit_all, copy_files, git

COMMANDS = re.compile(r"```console\n(.*?)```", re.DOTALL)


@pytest.mark.network
@pytest.mark.slow
def test_the_first_change_goes_from_red_to_green(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    set_up, change = COMMANDS.findall(page)[:2]
    copy_files(tmp_path)
    commit_all(tmp_path)
    git(tmp_path, "config", "user.name", "Test")
    git(tmp_path, "config", "user.email", "test@example.org")

    lines = [*set_up.splitlines(), *change.splitlines()]
    for line, code in zip(lines, [0, 0, 1, 0, 0, 0], strict=True):
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
    assert "docs/reference/machines.md" in git(tmp_path, "show", "--stat")
