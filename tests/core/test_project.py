"""Where a project's folders are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.project import find_project

if TYPE_CHECKING:
    import pytest


def test_a_relative_folder_serves_programs_that_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "envs" / "catalog").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_project(Path("mine")).root == tmp_path / "mine"
    (tmp_path / "mine" / "deep").mkdir()
    assert find_project(Path("mine/deep")).root == tmp_path / "mine"
