"""A user without a home, as of a container that is run with any number: no HOME, none in passwd."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from provision.core.home import home_folder, with_home
from provision.doctor.report import private
from provision.installer.uv import _cache
from tests.lab import typed
from tests.small import Index, make_project

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has USERPROFILE")
KNOWN = "error: CUDA error: no kernel image is available for execution on the device\n"


@pytest.fixture(autouse=True)
def _homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: object) -> None:
        raise KeyError

    for name in ("HOME", "USER", "LOGNAME", "XDG_CACHE_HOME", "UV_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", absent)
    monkeypatch.setattr("pwd.getpwnam", absent)


def test_a_path_below_no_home_stays_as_it_is() -> None:
    assert home_folder() is None
    assert with_home(Path("~/key")) == Path("~/key")
    assert private("/home/someone/x.py") == "~/x.py"


def test_uv_keeps_its_cache_where_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What uv 0.9 names as `cache dir` without a home; its owner is checked before a build."""
    assert Path(".uv_cache") == _cache()
    monkeypatch.setenv("HOME", "/home/u")
    assert Path("/home/u/.cache/uv") == _cache()


@pytest.mark.machine
@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "--python", sys.executable],
        ["doctor", "--python", sys.executable, "--report"],
        ["doctor", "--log", "log", "--report"],
        ["evidence", "emit", "tiny", "--key", "~/key"],
        ["targets"],
        ["lock", "--check"],
        ["detect"],
    ],
)
def test_verbs_work_without_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    project = make_project(tmp_path / "project", Index(tmp_path, "http://localhost:9"))
    monkeypatch.chdir(project.root)
    Path("log").write_text(KNOWN, encoding="utf-8")
    done = typed(*words)
    assert done.returncode in {0, 1, 2}
    assert "Provision itself failed" not in done.stderr
    assert done.stdout or done.stderr
