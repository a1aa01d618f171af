"""Going back, and removing only what is ours and not in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.commands.generations import abandoned, clean, rollback
from provision.core.errors import UsageError
from provision.core.filesystem import make_tagged, read_link, swap_link
from provision.core.project import CURRENT, Project
from provision.environment.manifest import write_record
from provision.ui.console import Console
from provision.ui.results import show_cleaned
from tests.environment.test_manifest import ENTRY
from tests.lab import Silent

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three generations, ``b`` in use, one unfinished, and a folder of somebody else."""
    made = Project(tmp_path).environments("t")
    for name in "abc":
        make_tagged(made / name)
        built = f"2026-01-0{ord(name) - 96}T00:00:00.000+00:00"
        write_record(made / name, ENTRY.model_copy(update={"built": built}))
    make_tagged(made / "unfinished")
    (made / "foreign").mkdir()
    swap_link(made / CURRENT, made / "b")
    return made


def left(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()} - {".lock"}


def test_rollback_takes_the_one_before_the_current(home: Path, tmp_path: Path) -> None:
    result = rollback(Project(tmp_path), "t", Silent())
    assert (result.before, result.now.folder.name) == ("b", "a")
    assert read_link(home / CURRENT) == home / "a"


def test_rollback_of_the_oldest_is_refused(home: Path, tmp_path: Path) -> None:
    swap_link(home / CURRENT, home / "a")
    with pytest.raises(UsageError, match="no earlier generation"):
        rollback(Project(tmp_path), "t", Silent())
    assert read_link(home / CURRENT) == home / "a"


@pytest.mark.parametrize(
    ("keep", "everything", "stays"),
    [
        (0, False, {"b", "current", "foreign"}),
        (1, False, {"b", "c", "current", "foreign"}),
        (9, False, {"a", "b", "c", "current", "foreign"}),
        (0, True, {"foreign"}),
    ],
)
def test_clean_keeps(
    home: Path, tmp_path: Path, *, keep: int, everything: bool, stays: set[str]
) -> None:
    result = clean(Project(tmp_path), "t", Silent(), keep=keep, everything=everything)
    assert left(home) == stays
    assert {name for name, _ in result.removed} == {"a", "b", "c"} - stays
    assert all(size == ENTRY.size for _, size in (*result.removed, *result.kept))


def test_what_has_no_spec_is_named_and_only_what_is_ours_is_removed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``t`` has no spec; beside it lie a target, and folders that are not ours."""
    envs = tmp_path / ".envs"
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "known.toml").touch()
    make_tagged(envs / "known" / "a")
    (envs / "verdicts").mkdir()
    (envs / "somebody" / "data").mkdir(parents=True)
    (envs / "linked").symlink_to(envs / "somebody", target_is_directory=True)
    (envs / "file").touch()
    project = Project(tmp_path)
    assert abandoned(project) == ["t"]
    result = clean(project, "t", Silent(), keep=0, everything=False)
    assert (result.abandoned, [name for name, _ in result.kept]) == (True, ["b"])
    show_cleaned(result, Console("provision"))
    assert "`provision clean t --all` removes" in capsys.readouterr().out
    assert not clean(project, "known", Silent(), keep=0, everything=False).abandoned
    result = clean(project, "t", Silent(), keep=0, everything=True)
    show_cleaned(result, Console("provision"))
    assert "--all" not in capsys.readouterr().out
    assert left(home) == {"foreign"}
    assert abandoned(project) == []
    assert (envs / "somebody" / "data").is_dir()
