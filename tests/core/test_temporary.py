"""Temporary folders go with their makers, and nobody else's do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from provision.core.temporary import scratch

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
import sys; from pathlib import Path
from provision.core.temporary import scratch
with scratch(Path(sys.argv[1])) as made:
    (made / "file").touch()
    print(made, flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_there_while_the_block_runs(tmp_path: Path) -> None:
    with scratch(tmp_path) as first, scratch(tmp_path) as second:
        (first / "file").touch()
        assert first != second
        assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert list(tmp_path.iterdir()) == []


def test_it_lies_in_the_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch() as made:
        assert made.parent == tmp_path


@pytest.mark.machine
def test_attack_folders_of_killed_runs(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CODE, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, **pipes) as living, subprocess.Popen(argv, **pipes) as killed:  # type: ignore[call-overload]
        names = [os.fsdecode(child.stdout.readline()).strip() for child in (living, killed)]
        killed.kill()
        killed.wait()
        for name in ("provision-clone", ".provision-mine", "file"):  # the user's own
            (tmp_path / name).mkdir()
        (tmp_path / ".provision-scratch-link").symlink_to(tmp_path / "file")
        os.utime(tmp_path / ".provision-scratch-link", (0, 0), follow_symlinks=False)
        with scratch(tmp_path):  # may have been made in this very moment, and not locked yet
            assert os.path.exists(names[1])  # noqa: PTH110
        for name in names:
            os.utime(name, (0, 0))
        with scratch(tmp_path):
            assert os.path.exists(names[0])  # noqa: PTH110
            assert not os.path.exists(names[1])  # noqa: PTH110
        assert living.communicate() == (b"", None)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".provision-mine", ".provision-scratch-link", "file", "provision-clone"]


def test_another_user_s_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / ".provision-scratch-theirs"
    theirs.mkdir()
    os.utime(theirs, (0, 0))
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with scratch(tmp_path):
        assert theirs.is_dir()
    monkeypatch.undo()
    with scratch(tmp_path):
        assert not theirs.is_dir()
