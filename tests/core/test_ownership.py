"""Whose projects and caches are trusted."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.core import ownership
from provision.core.errors import Exit, UsageError
from provision.core.ownership import require_own
from provision.installer.uv import install_wheels
from tests.small import TARGET, Index, make_project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there is no such check"
)
STRANGER = 4242
ROOT_ALONE = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="it is about root"
)


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Give a path to another user; who may not, becomes another user than its owner."""
    if os.geteuid():
        monkeypatch.setattr(ownership, "__file__", "/")
        me = os.geteuid()
        return lambda _: monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    return lambda path: os.chown(path, STRANGER, -1, follow_symlinks=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = make_project(tmp_path / "project", Index(tmp_path)).root
    made.joinpath("deep", "er").mkdir(parents=True)
    monkeypatch.chdir(made / "deep" / "er")
    return made


@pytest.mark.parametrize("part", [".", "envs/catalog", "smoke", ".envs"])
def test_attack_a_planted_project_is_refused(
    project: Path,
    give_away: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
    part: str,
) -> None:
    assert main.main(["targets"]) == Exit.OK
    (project / part).mkdir(exist_ok=True)
    give_away(project / part)
    assert main.main(["targets"]) == Exit.USAGE
    message = capsys.readouterr().err
    assert "belongs to another user" in message
    assert f"--project {project}" in message
    assert main.main(["targets", "--project", str(project)]) == Exit.OK


@pytest.mark.parametrize(
    "part",
    [
        f".envs/{TARGET}",
        f".envs/{TARGET}/made",
        ".envs",
        "envs",
        "lockfiles",
        f"lockfiles/{TARGET}",
        ".cache",
    ],
)
def test_attack_an_environment_of_another_user_is_not_run(
    project: Path,
    give_away: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
    part: str,
) -> None:
    (project / ".envs" / TARGET / "made").mkdir(parents=True)
    (project / ".envs" / TARGET / "current").symlink_to("made")
    (project / part).mkdir(parents=True, exist_ok=True)
    give_away(project / part)
    assert main.main(["run", TARGET, "--", "true"]) == Exit.USAGE
    assert "belongs to another user" in capsys.readouterr().err


FILES = (
    "smoke/check.py",
    f"envs/{TARGET}.toml",
    f"lockfiles/{TARGET}/x",
    "noxfile.py",
    "deep.pth",
)


@ROOT_ALONE
@pytest.mark.parametrize("how", ["foreign", "writable"])
@pytest.mark.parametrize(
    "name", [*FILES, "smoke/new/", ".cache/", f".envs/{TARGET}/made/a/x.py"]
)
def test_attack_root_runs_no_file_that_others_can_change(
    project: Path, capsys: pytest.CaptureFixture[str], name: str, how: str
) -> None:
    """Another user owns, or can write, a file that would run as root: it is named, and not run."""
    (project / ".envs" / TARGET / "made").mkdir(parents=True)
    (project / ".envs" / TARGET / "current").symlink_to("made")
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if name.endswith("/") else path.touch()
    words = ["run", TARGET, "--", "true"]
    main.main(words)
    assert str(path) not in capsys.readouterr().err
    os.chown(path, STRANGER, -1) if how == "foreign" else path.chmod(0o777)
    assert main.main(words) == Exit.USAGE
    message = capsys.readouterr().err
    assert str(path) in message
    assert f"--project {project}" in message
    if how == "writable":
        assert f"`chmod o-w {path}`" in message
        path.chmod(0o775)  # the group is the owner's choice
        main.main(words)
        assert str(path) not in capsys.readouterr().err


def test_who_typed_a_session_is_told_the_session(
    project: Path,
    give_away: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give_away(project)
    monkeypatch.setenv("NOX_CURRENT_SESSION", "targets")
    monkeypatch.setenv("PATH", "")
    for nox in ("nox", "python3 noxfile.py"):  # in a clone
        assert main.main(["targets"]) == Exit.USAGE
        typed = f"`{nox} -s targets -- --project {project}`"
        assert typed in capsys.readouterr().err
        (project / "lockfiles" / "tools").mkdir(parents=True, exist_ok=True)


@ROOT_ALONE
def test_a_lock_that_all_may_take_is_no_file_that_runs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = project / ".envs" / TARGET / "made"
    made.mkdir(parents=True)
    (made.parent / "current").symlink_to("made")
    (made / ".lock").touch()
    (made / ".lock").chmod(0o666)
    (made / "link").symlink_to(project / "deep")
    (made / "shared").mkdir()
    (made / "shared").chmod(0o1777)
    (project / "deep" / "unused").touch()
    (project / "deep" / "unused").chmod(0o666)
    main.main(["run", TARGET, "--", "true"])
    assert "every user" not in capsys.readouterr().err
    os.chown(made / "link", STRANGER, -1, follow_symlinks=False)
    main.main(["run", TARGET, "--", "true"])
    assert f"{made / 'link'} belongs to another" in capsys.readouterr().err


def test_attack_a_link_to_a_project_is_judged_by_both(
    tmp_path: Path, give_away: Callable[[Path], None]
) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    require_own([tmp_path / "absent", link], "")
    give_away(link)
    with pytest.raises(UsageError, match="another user"):
        require_own([link], "")


@ROOT_ALONE
def test_under_sudo_the_project_of_its_user_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(tmp_path, STRANGER, -1)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    require_own([tmp_path], "")
    monkeypatch.setenv("SUDO_UID", str(STRANGER + 1))
    with pytest.raises(UsageError, match="another user"):
        require_own([tmp_path], "")
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER + 1)  # sudo of another user
    with pytest.raises(UsageError, match="another user"):
        require_own([tmp_path], "")


@ROOT_ALONE
def test_a_user_s_own_project_may_be_writable_by_all(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.chmod(0o777)
    os.chown(project, STRANGER, -1)
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert main.main(["targets"]) == Exit.OK


def test_what_the_owner_of_the_toolkit_has_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, give_away: Callable[[Path], None]
) -> None:
    give_away(tmp_path)
    monkeypatch.setattr(ownership, "__file__", str(tmp_path))
    require_own([tmp_path], "")


def test_attack_a_cache_of_another_user_is_not_linked_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, give_away: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    give_away(tmp_path)
    with pytest.raises(UsageError) as error:
        install_wheels(tmp_path, [], lambda *_, **__: pytest.fail("uv was started"), {})
    assert "UV_CACHE_DIR" in error.value.remedy


def test_a_file_that_goes_while_the_project_is_read_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python renames its compiled files, and a run cleans up, while root reads the folders."""
    (tmp_path / "smoke" / "gone").mkdir(parents=True)
    (tmp_path / "smoke" / "check.py").touch()
    scan = os.scandir

    def scan_late(folder: str) -> contextlib.AbstractContextManager[object]:
        entries = list(scan(folder))
        if folder.endswith("smoke"):
            (tmp_path / "smoke" / "check.py").unlink()
            (tmp_path / "smoke" / "gone").rmdir()
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", scan_late)
    (tmp_path / "file").touch()  # other repositories have files of such names
    folders = [tmp_path / "smoke", tmp_path / "file"]
    ownership._require_no_other_writer(tmp_path, folders, "")
    assert not list((tmp_path / "smoke").iterdir())
