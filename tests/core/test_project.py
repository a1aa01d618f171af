"""Where a project's folders are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provision.artifacts.pip_config import config_files
from provision.commands.edit_journal import editing, rewrite, undo_killed_edit
from provision.core.errors import UsageError
from provision.core.limits import is_inside
from provision.core.project import Project, find_project, shipped
from provision.report.history import history
from tests.lab import Silent


def test_a_relative_folder_serves_programs_that_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "envs" / "catalog").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_project(Path("mine")).root == tmp_path / "mine"
    (tmp_path / "mine" / "deep").mkdir()
    assert find_project(Path("mine/deep")).root == tmp_path / "mine"


@pytest.mark.skipif(os.name == "nt", reason="it has LOCALAPPDATA")
def test_a_user_without_a_home_has_no_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: int) -> None:
        raise KeyError

    monkeypatch.setenv("XDG_STATE_HOME", "relative/folder")
    monkeypatch.setenv("HOME", str(tmp_path))
    private = Project(tmp_path).private
    assert private
    assert private.parent == tmp_path / ".local" / "state" / "provision"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", absent)
    assert Project(tmp_path).private is None
    assert is_inside(tmp_path / "a", tmp_path)
    assert history(Project(tmp_path), "cpu-linux") == []
    assert not any(
        path.is_file() for path in config_files({}) if "etc" not in path.parts
    )
    progress = Silent()
    with editing(Project(tmp_path), progress):
        rewrite(tmp_path / "a.txt", "a")
    assert "a killed edit cannot be undone" in progress.notes[0]
    undo_killed_edit(Project(tmp_path), progress)


def test_one_spec_makes_a_project_and_condas_folders_do_not(tmp_path: Path) -> None:
    (tmp_path / "envs" / "base" / "lib").mkdir(parents=True)
    with pytest.raises(UsageError) as caught:
        find_project(tmp_path)
    assert "init" in caught.value.remedy
    (tmp_path / "envs" / "cpu-linux.toml").touch()
    assert find_project(tmp_path / "envs").root == tmp_path


def test_no_clone_answers_for_a_folder_without_a_project(tmp_path: Path) -> None:
    assert find_project(shipped().root) == shipped()
    with pytest.raises(UsageError):
        find_project(tmp_path)
