"""Going back, and removing only what is ours and not in use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.commands.build import build
from provision.commands.build_request import ready_generation
from provision.commands.generations import (
    EDITED,
    REPLACED,
    UNKNOWN,
    abandoned,
    clean,
    difference_of,
    rollback,
)
from provision.core.errors import UsageError
from provision.core.filesystem import make_tagged, read_link, swap_link
from provision.core.process import run
from provision.core.project import CURRENT, Project
from provision.environment.manifest import (
    Generation,
    current_generation,
    write_record,
)
from provision.environment.seal import Seal, read_seal, restamp
from provision.environment.stamp import stamp
from provision.environment.uses import use
from provision.ui.console import Console
from provision.ui.results import show_cleaned
from tests.environment.test_manifest import ENTRY
from tests.lab import Silent
from tests.small import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from provision.commands.generations import Cleaned
    from tests.lab import Lab


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three generations, ``b`` in use, one unfinished, and a folder of somebody else."""
    made = Project(tmp_path).environments("t")
    days = {"a": "2026-01-01", "b": "2026-01-02", "c": "2026-01-03"}
    for name, day in days.items():
        generation = made / name
        make_tagged(generation)
        built = f"{day}T00:00:00.000+00:00"
        record = ENTRY.model_copy(update={"built": built})
        seal = Seal({}, {}, stamp=stamp(generation))
        write_record(generation, record, seal)
    make_tagged(made / "unfinished")
    (made / "foreign").mkdir()
    swap_link(made / CURRENT, made / "b")
    return made


def left(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()} - {".lock", ".used", ".seals"}


def go_back(root: Path) -> str:
    """Roll back, and return the name of the generation that is current then."""
    result = rollback(Project(root), "t", Silent())
    return result.now.folder.name


def cleaned(root: Path, target: str = "t", *, keep: int, everything: bool) -> Cleaned:
    return clean(Project(root), target, Silent(), keep=keep, everything=everything)


def test_rollback_takes_the_one_before_the_current(home: Path, tmp_path: Path) -> None:
    result = rollback(Project(tmp_path), "t", Silent())
    assert result.before == "b"
    assert result.now.folder.name == "a"
    assert read_link(home / CURRENT) == home / "a"


def test_rollback_of_the_oldest_is_refused(home: Path, tmp_path: Path) -> None:
    swap_link(home / CURRENT, home / "a")
    with pytest.raises(UsageError, match="no earlier generation"):
        go_back(tmp_path)
    assert read_link(home / CURRENT) == home / "a"


def build_again(home: Path, *names: str) -> None:
    """Take generations into use one after the other, as builds do."""
    for name in names:
        use(home / name)


def test_rollback_goes_by_use_and_not_by_build(home: Path, tmp_path: Path) -> None:
    """As after add (b), remove (back to a), and another add (c)."""
    build_again(home, "a", "b")
    (home / ".used").unlink()  # as an earlier version left it
    build_again(home, "a")
    for before in ("b", "a"):
        assert go_back(tmp_path) == before
        build_again(home, "a", "c")
    # Each goes one further back, and what it left is forgotten.
    for before in ("a", "b", "a"):
        assert go_back(tmp_path) == before
    with pytest.raises(UsageError, match="no earlier generation") as caught:
        go_back(tmp_path)
    assert "in use before a" in caught.value.cause


def test_what_rollback_goes_back_to_is_kept_first(home: Path, tmp_path: Path) -> None:
    build_again(home, "a", "b", "a", "c")
    cleaned(tmp_path, keep=1, everything=False)
    assert left(home) == {"a", "c", "current", "foreign"}
    used = home / ".used"
    assert used.read_text().split() == ["a", "c"]
    assert go_back(tmp_path) == "a"
    cleaned(tmp_path, keep=0, everything=True)
    assert not used.exists()


def test_a_kill_between_link_and_note_loses_no_way_back(
    home: Path, tmp_path: Path
) -> None:
    build_again(home, "a", "b")
    swap_link(home / CURRENT, home / "c")  # killed then
    assert go_back(tmp_path) == "b"


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
    result = cleaned(tmp_path, keep=keep, everything=everything)
    assert left(home) == stays
    removed = {name for name, _ in result.removed}
    assert removed == {"a", "b", "c"} - stays
    for _, size in (*result.removed, *result.kept):
        assert size == ENTRY.size


def test_what_has_no_spec_is_named_and_only_what_is_ours_is_removed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``t`` has no spec; beside it lie a target, and folders that are not ours."""
    specs = tmp_path / "envs"
    specs.mkdir()
    (specs / "known.toml").touch()
    envs = tmp_path / ".envs"
    make_tagged(envs / "known" / "a")
    (envs / "verdicts").mkdir()
    somebody = envs / "somebody"
    data = somebody / "data"
    data.mkdir(parents=True)
    (envs / "linked").symlink_to(somebody, target_is_directory=True)
    (envs / "file").touch()
    project = Project(tmp_path)
    console = Console("provision")
    assert abandoned(project) == ["t"]
    result = cleaned(tmp_path, keep=0, everything=False)
    assert result.abandoned is True
    ((kept, _),) = result.kept
    assert kept == "b"
    show_cleaned(result, console)
    assert "`provision clean t --all` removes" in capsys.readouterr().out
    known = cleaned(tmp_path, "known", keep=0, everything=False)
    assert not known.abandoned
    result = cleaned(tmp_path, keep=0, everything=True)
    show_cleaned(result, console)
    assert "--all" not in capsys.readouterr().out
    assert left(home) == {"foreign"}
    assert abandoned(project) == []
    assert data.is_dir()


BEFORE = "the stamp of another time"


def current(lab: Lab) -> Generation:
    found = current_generation(lab.home)
    assert found is not None
    return found


def build_with_another_interpreter(lab: Lab) -> Path:
    """Let the record name another interpreter than is here now, whose attributes differ too."""
    built = current(lab)
    interpreter = built.record.interpreter
    assert interpreter is not None
    other = interpreter.model_copy(update={"sha256": "0" * 64})
    changed = built.record.model_copy(update={"interpreter": other})
    write_record(built.folder, changed)
    restamp(built.folder, BEFORE)
    return built.folder


@pytest.mark.machine
def test_attack_rollback_to_a_replaced_interpreter(ready: Lab) -> None:
    first = build_with_another_interpreter(ready)
    gamma = ready.wheel("gamma")
    ready.relock(*ready.wheels, gamma)
    ready.build()
    with pytest.raises(UsageError, match="no earlier generation"):
        rollback(ready.project, TARGET, ready.listener)
    assert f"{first.name} is left out: {REPLACED}" in ready.listener.notes
    assert read_seal(first).stamp == BEFORE


def smoke_fully(lab: Lab) -> int:
    root = str(lab.project.root)
    return main.main(["smoke", TARGET, "--full", "--project", root])


@pytest.mark.machine
def test_attack_a_full_run_does_not_vouch_for_a_replaced_interpreter(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build_with_another_interpreter(ready)
    smoke_fully(ready)
    assert REPLACED in capsys.readouterr().err
    assert read_seal(folder).stamp == BEFORE
    assert ready_generation(ready.order()) is None


@pytest.mark.machine
def test_a_full_run_passes_where_the_seal_cannot_be_written(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = current(ready).folder
    restamp(folder, BEFORE)
    lock = ready.home / ".seals" / ".lock"
    lock.unlink()
    lock.mkdir()  # also root cannot open it
    assert smoke_fully(ready) == 0
    assert "cannot work in" in capsys.readouterr().err
    assert read_seal(folder).stamp == BEFORE
    lock.rmdir()
    assert smoke_fully(ready) == 0
    assert read_seal(folder).stamp == stamp(folder)


@pytest.mark.machine
def test_own_packages_are_those_of_the_build_and_not_of_the_lock(lab: Lab) -> None:
    lab.relock(*lab.wheels, lab.wheel("gamma"))
    order = lab.order(smoke=False)
    plain = order.lock
    header = plain.header | {"local": "gamma"}
    own = replace(plain, header=header)
    build(replace(order, lock=own), run, lab.listener)
    built = current(lab)
    assert built.record.local == ("gamma",)
    edit(built.folder, "gamma.py")
    for lock in (own, plain, None):
        assert difference_of(built, lock) == ""
    record = built.record.model_copy(update={"local": None})
    earlier = replace(built, record=record)
    assert difference_of(earlier, own) == ""
    assert difference_of(earlier, plain) == UNKNOWN
    assert difference_of(earlier, None) == UNKNOWN
    edit(built.folder, "alpha.py")
    assert difference_of(built, own) == EDITED
    assert difference_of(built, plain) == EDITED
    assert difference_of(earlier, own) == EDITED


def edit(folder: Path, name: str) -> None:
    (module,) = folder.rglob(name)
    text = module.read_text()
    module.unlink()  # which the installer's cache shares
    module.write_text(text + "# edited\n")
