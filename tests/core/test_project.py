"""Where a project's folders are."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.core.errors import UsageError
from provision.core.project import find_project, shipped


def test_a_relative_folder_serves_programs_that_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "envs" / "catalog").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_project(Path("mine")).root == tmp_path / "mine"
    (tmp_path / "mine" / "deep").mkdir()
    assert find_project(Path("mine/deep")).root == tmp_path / "mine"


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
