"""The name by which messages call the command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from provision.core.program import elsewhere, program_name

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script beside the running Python."""
    made = tmp_path / "tools" / "bin" / "provision"
    made.parent.mkdir(parents=True)
    made.touch(0o755)
    monkeypatch.setattr(sys, "executable", str(made.with_name("python")))
    monkeypatch.chdir(tmp_path)
    return made


def test_a_link_to_it_on_path_makes_the_name_enough(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "provision").symlink_to(script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert program_name() == "provision"


def test_another_command_of_the_name_on_path_is_not_meant(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "provision").touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{script.parent}")
    assert program_name() == "tools/bin/provision"


def test_a_session_s_caller_in_another_folder_is_told_where_paths_begin(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", str(script.parent))
    monkeypatch.delenv("NOX_CURRENT_SESSION", raising=False)
    assert not elsewhere(), "only nox enters another folder"
    monkeypatch.setenv("NOX_CURRENT_SESSION", "build-tiny")
    assert elsewhere() == f", in {tmp_path}"
    for same in (str(tmp_path), str(tmp_path / "gone")):
        monkeypatch.setenv("PWD", same)
        assert not elsewhere()
