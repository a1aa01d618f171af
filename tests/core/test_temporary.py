"""Temporary folders go with their makers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provision.core.temporary import scratch


def test_a_folder_is_there_while_the_block_runs(tmp_path: Path) -> None:
    with scratch(tmp_path) as first, scratch(tmp_path) as second:
        (first / "file").touch()
        assert first != second
        assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", [".provision-backup-of-mine", ".provision-personal", ".provision-tmp-mine"]
)
def test_a_folder_that_the_user_named_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.txt").touch()
    with scratch(tmp_path):
        pass
    assert (tmp_path / name / "thesis.txt").is_file()


@pytest.mark.machine
def test_attack_kills_leave_no_temporary_folder(tmp_path: Path) -> None:
    """What a killed run left goes with the next; what is held or somebody else's stays."""
    code = (
        "import sys, time, pathlib; from provision.core.temporary import scratch\n"
        "with scratch(pathlib.Path(sys.argv[1])) as folder:\n"
        "    (folder / 'file').touch(); print(folder, flush=True); time.sleep(600)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    elsewhere = tmp_path.parent / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / ".provision-tmp-linked_1"
    link.symlink_to(elsewhere, target_is_directory=True)
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as alive,
    ):
        assert killed.stdout is not None
        assert alive.stdout is not None
        left, held = (
            Path(out.readline().strip()) for out in (killed.stdout, alive.stdout)
        )
        killed.kill()
        killed.wait()
        with scratch(tmp_path) as own:
            assert sorted(tmp_path.iterdir()) == sorted([held, own, link])
        assert (held / "file").is_file()
        alive.kill()
    with scratch(tmp_path):
        pass
    assert not left.exists()
    assert list(tmp_path.iterdir()) == [link]
    assert elsewhere.is_dir()
