"""Which Python is meant: names, wrappers, and interpreters that crash or hang."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from provision.commands.subject import from_interpreter
from provision.core.errors import UsageError
from provision.core.process import run
from provision.doctor import sites as module
from provision.doctor.environment import read_environment
from provision.doctor.sites import locate, prefix_of

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


@pytest.mark.skipif(os.name == "nt", reason="links need rights in Windows")
@pytest.mark.parametrize("to", ["python", "venv"])
@pytest.mark.parametrize("user_site", [False, True])
def test_a_link_outside_of_any_environment_is_followed_as_python_does(
    tmp_path: Path, to: str, *, user_site: bool
) -> None:
    """Such as ~/bin/python3, or ~/.local/bin/python3.12 beside the user's own packages."""
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    venv.create(tmp_path / "venv", symlinks=True)
    link = tmp_path / "home/bin/python3"
    link.parent.mkdir(parents=True)
    if user_site:
        minor = "python{}.{}".format(*sys.version_info)
        (tmp_path / "home/lib" / minor / "site-packages").mkdir(parents=True)
    link.symlink_to(tmp_path / "venv/bin/python" if to == "venv" else base)
    for named in (link, tmp_path / "venv/bin/python"):
        argv = [str(named), "-I", "-c", "import sys; print(sys.prefix)"]
        prefix = Path(run(argv).stdout.strip())
        assert prefix_of(locate(str(named), run)).resolve() == prefix.resolve()
    assert read_environment(locate(str(link), run)).site.is_dir()
    own = from_interpreter(link, run).prefix.resolve()
    assert own == Path(sys.base_prefix).resolve()


def test_a_link_to_a_wrapper_is_asked(tmp_path: Path) -> None:
    shim = script(tmp_path / "shims/python", f'exec "{sys.executable}" "$@"')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(shim)
    assert locate(str(tmp_path / "bin/python"), run) == Path(sys.executable)


@pytest.mark.parametrize("target", ["gone", "python"])
def test_a_link_to_nothing_stays_what_was_named(tmp_path: Path, target: str) -> None:
    (tmp_path / "python").symlink_to(tmp_path / target)
    assert locate(str(tmp_path / "python"), run) == tmp_path / "python"


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
