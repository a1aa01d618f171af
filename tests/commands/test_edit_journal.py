"""An edit of several files is whole or undone; what a killed one left is put back by the next."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from provision.commands.edit_journal import editing, rewrite, undo_killed_edit
from provision.core.errors import UsageError
from provision.core.project import Project
from tests.lab import Silent
from tests.small import contents

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "state"))
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    (root / "gone").write_text("was\n")
    return Project(root)


def killed(project: Project) -> None:
    """Leave what an edit leaves that is killed: a changed file, a new one, and a new lock."""
    root = project.root
    with editing(project, Silent()) as edits:
        rewrite(root / "a.txt", "b\n")
        rewrite(root / "a.txt", "c\n")
        rewrite(root / "new" / "b.txt", "new\n")
        edits.write(root / "gone", None)
        edits.write(root / "lock", b"made")
        (journal,) = project.private.glob("*.json")
        text = journal.read_bytes()
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600 or os.name == "nt"
    assert not journal.exists()
    journal.write_bytes(text)


def state(project: Project) -> dict[str, str]:
    texts = {}
    for path in contents(project.root):
        name = path.relative_to(project.root).as_posix()
        if not name.startswith(".cache/"):
            texts[name] = path.read_text()
    return texts


def test_a_failed_edit_is_undone_and_says_so(project: Project) -> None:
    def edit() -> None:
        with editing(project, Silent()):
            rewrite(project.root / "a.txt", "b\n")
            rewrite(project.root / "b.txt", "b\n")
            raise UsageError("no")

    with pytest.raises(UsageError) as caught:
        edit()
    assert state(project) == {"a.txt": "a\n", "gone": "was\n"}
    assert "put back as before: " in caught.value.evidence
    assert not list(project.private.glob("*"))


@pytest.mark.parametrize("error", [UsageError("no"), KeyboardInterrupt()])
def test_a_failed_edit_leaves_what_others_saved_meanwhile(
    project: Project, error: BaseException
) -> None:
    """An editor saves a file, and git brings a lock, while a command resolves."""
    progress = Silent()

    def edit() -> None:
        with editing(project, progress) as edits:
            for name in ("a.txt", "b.txt", "lock"):
                edits.write(project.root / name, b"ours")
            edits.write(project.root / "gone", None)
            (project.root / "a.txt").write_text("theirs")
            (project.root / "lock").write_text("theirs")
            raise error

    with pytest.raises(type(error)) as caught:
        edit()
    assert state(project) == {"a.txt": "theirs", "lock": "theirs", "gone": "was\n"}
    said = getattr(caught.value, "evidence", "") or "\n".join(progress.notes)
    assert f"put back as before: {project.root / 'b.txt'}" in said
    left = ", ".join(str(project.root / name) for name in ("a.txt", "lock"))
    assert f"changed by another program meanwhile, and left: {left}" in said


def test_a_failed_edit_removes_only_empty_folders_that_it_made(
    project: Project,
) -> None:
    root = project.root
    (root / "theirs").mkdir()

    def edit() -> None:
        with editing(project, Silent()):
            for name in ("a/b/c", "a/d", "theirs/e", "f/g"):
                rewrite(root / name, "x")
            (root / "f" / "theirs").touch()
            raise UsageError("no")

    with pytest.raises(UsageError):
        edit()
    assert {path.name for path in root.iterdir() if path.is_dir()} == {
        "theirs",
        "f",
    }


def test_a_newer_lock_stays_where_the_edit_was_put_back_by_hand(
    project: Project,
) -> None:
    killed(project)
    (project.root / "a.txt").write_text("a\n")
    (project.root / "lock").write_text("of a later pull")
    before = state(project)
    undo_killed_edit(project, Silent())
    assert state(project) == before


@pytest.mark.parametrize("name", ["link.txt", "linked/b.txt", "nowhere.txt"])
def test_attack_links_of_a_clone_write_no_file_outside(
    project: Project, name: str
) -> None:
    root, victim = project.root, project.root.parent / "victim"
    victim.mkdir()
    (victim / "b.txt").write_text("mine")
    (root / "link.txt").symlink_to("../victim/b.txt")
    (root / "linked").symlink_to("../victim")
    (root / "nowhere.txt").symlink_to("../victim/new.txt")
    with (
        pytest.raises(UsageError, match=f"{name} is outside the project") as caught,
        editing(project, Silent()),
    ):
        rewrite(root / name, "evil")
    assert "replace the link" in caught.value.remedy
    assert [path.read_text() for path in victim.iterdir()] == ["mine"]


def test_a_killed_edit_is_undone_by_the_next_command(project: Project) -> None:
    killed(project)
    left = (
        project.root / ".a.txt.provision-0a1b2c3d"
    )  # being written when it was killed
    left.touch()
    progress = Silent()
    undo_killed_edit(project, progress)
    assert state(project) == {"a.txt": "a\n", "gone": "was\n"}
    assert not left.exists()
    (note,) = progress.notes
    assert note.startswith("an edit was interrupted; put back as before: ")
    undo_killed_edit(project, progress)
    assert len(progress.notes) == 1


@pytest.mark.parametrize("name", ["a.txt", "new/b.txt"])
def test_an_edit_that_somebody_went_on_with_stays(project: Project, name: str) -> None:
    killed(project)
    (project.root / name).write_text("mine\n")
    before, progress = state(project), Silent()
    with editing(project, progress):
        pass
    assert state(project) == before
    assert "changed since" in progress.notes[0]
    undo_killed_edit(project, progress)
    assert len(progress.notes) == 1


def journal_of(name: str, entry: object) -> str:
    return json.dumps({"files": {name: entry}})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        '{"files": 3}',
        journal_of("a.txt", {"before": 3}),
        journal_of("a.txt", {"before": None, "became": 5}),
        journal_of("a.txt", {"before": "!", "became": []}),
        journal_of("a\0", {"before": None, "became": ["a"]}),
        journal_of("a" * 5000, {"before": None, "became": ["a"]}),
    ],
    ids=range(10),
)
def test_a_damaged_journal_is_set_aside_and_named(project: Project, text: str) -> None:
    killed(project)
    (journal,) = project.private.glob("*.json")
    journal.write_text(text)
    before, progress = state(project), Silent()
    undo_killed_edit(project, progress)
    assert state(project) == before
    damaged = journal.with_name("edit.damaged.json")
    assert damaged.read_text() == text
    assert not journal.exists()
    (note,) = progress.notes
    assert "compare the project's" in note
    assert note.endswith(f"remove {damaged}")


def test_a_journal_without_a_change_is_forgotten(project: Project) -> None:
    killed(project)
    (journal,) = project.private.glob("*.json")
    journal.write_text("")
    before, progress = state(project), Silent()
    undo_killed_edit(project, progress)
    assert state(project) == before
    assert not progress.notes
    assert not journal.exists()


def test_attack_a_journal_of_a_clone_is_not_read(project: Project) -> None:
    """A clone brings along a journal that would write a file of its user."""
    victim = project.root.parent / "victim"
    victim.write_text("mine")
    files = {str(victim): {"before": "ZXZpbA==", "became": []}}
    for place in (".cache/edit.json", ".cache/provision/edit.json", "edit.json"):
        path = project.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"files": files}))
    undo_killed_edit(project, Silent())
    with editing(project, Silent()):
        rewrite(project.root / "a.txt", "b\n")
    assert victim.read_text() == "mine"


def test_without_a_place_for_the_journal_the_edit_goes_on_and_says_so(
    project: Project,
) -> None:
    project.private.parent.parent.write_text("a file")
    progress = Silent()
    with editing(project, progress):
        rewrite(project.root / "a.txt", "b\n")
    assert state(project) == {"a.txt": "b\n", "gone": "was\n"}
    assert "a killed edit cannot be undone" in progress.notes[0]


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root gives files away"
)
def test_lines_are_told_of_what_was_changed_alone(project: Project) -> None:
    changed, same = project.root / "a.txt", project.root / "b.txt"
    for path in (changed, same):
        path.write_text("one\n")
    with editing(project, Silent()) as edits:
        rewrite(changed, "two\n")
        assert edits.lines(changed) == (["one"], ["two"])
        assert edits.lines(same) == ([], None)


def test_mode_owner_and_link_stay(project: Project) -> None:
    link, path = project.root / "link.txt", project.root / "a.txt"
    link.symlink_to("a.txt")
    path.chmod(0o640)
    os.chown(path, 4321, 4322)
    with editing(project, Silent()):
        rewrite(link, "b\n")
    found = path.stat()
    assert link.is_symlink()
    assert path.read_text() == "b\n"
    assert found.st_uid == 4321
    assert found.st_gid == 4322
    assert stat.S_IMODE(found.st_mode) == 0o640
