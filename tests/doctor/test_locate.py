"""Which Python is meant: names, wrappers, and interpreters that crash or hang."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from provision.core.errors import UsageError
from provision.core.process import run
from provision.doctor import sites as module
from provision.doctor.sites import locate

pytestmark = pytest.mark.machine


def script(path: Path, line: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def test_a_command_is_found_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = script(tmp_path / "venv/bin/ourpython", "exit 1")
    (tmp_path / "venv/lib/python3.11/site-packages").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(python.parent))
    assert locate("ourpython", run) == python


def test_a_file_of_the_working_folder_is_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = script(tmp_path / "venv/bin/python", "exit 1")
    (tmp_path / "venv/lib/python3.11/site-packages").mkdir(parents=True)
    monkeypatch.chdir(python.parent)
    assert locate("./python", run) == python


def test_a_wrapper_is_asked(tmp_path: Path) -> None:
    shim = script(tmp_path / "shims/python", f'exec "{sys.executable}" "$@"')
    assert locate(str(shim), run) == Path(sys.executable)


def test_one_that_crashes_is_reported(tmp_path: Path) -> None:
    shim = script(tmp_path / "shims/python", "kill -SEGV $$")
    with pytest.raises(UsageError, match="does not report which environment") as caught:
        locate(str(shim), run)
    assert "SIGSEGV" in caught.value.cause


def test_one_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.3)
    shim = script(tmp_path / "shims/python", "sleep 60")
    with pytest.raises(UsageError, match="does not report which environment"):
        locate(str(shim), run)


def test_a_path_of_nothing_is_left_to_the_reader(tmp_path: Path) -> None:
    assert locate(str(tmp_path / "nothing"), run) == tmp_path / "nothing"
