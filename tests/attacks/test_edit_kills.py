"""``kill -9`` before any change of a file by an edit of a project: all files are edited, or none.

By number and not by clock, see :mod:`tests.attacks.killed`: 12 kills of a verb that edits several
files, of the others all.
"""

from __future__ import annotations

import json
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.project import CURRENT, Project
from provision.environment.uses import last_used
from tests.attacks.killed import run_killed
from tests.attacks.test_injected import points
from tests.commands.test_edit_spec import call, shop
from tests.lab import typed
from tests.small import TARGET

if TYPE_CHECKING:
    import subprocess

    from tests.attacks.scene import Scene
    from tests.lab import Lab

__all__ = ["shop"]  # a fixture
pytestmark = pytest.mark.machine
KILLS = 12  # of each verb


@dataclass
class Edit:
    """A command that edits a project, which can be put back and killed."""

    root: Path
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        # Its name begins with the project's, so changes of it are counted, too.
        self.state = self.root.with_name(f"{self.root.name}-state")
        self.copy = self.root.with_name("copy")
        shutil.copytree(self.root, self.copy, symlinks=True)
        self.before = self.files()

    def start(self) -> None:
        """Put the project back as it was, and what the user has of it."""
        for folder in (self.root, self.state):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.copy, self.root, symlinks=True)

    def killed(self, at: int = -1) -> int:
        """Run the command, killed before a change; return how many it made, -1 if killed."""
        words = (self.words[0], "--project", str(self.root), *self.words[1:])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.state))
            return run_killed(words, self.root, at, alone=at % 2 == 0)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.state))
            return typed(words[0], "--project", self.root, *words[1:])

    def files(self) -> dict[str, tuple[str, str, str]]:
        """Return all that the project has: its kind and mode, where it links to, and its text."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            place = path.relative_to(self.root).as_posix()
            if path.is_dir() or place.startswith((".cache/", ".envs/")):
                continue
            link = str(path.readlink()) if path.is_symlink() else ""
            mode = stat.filemode(path.lstat().st_mode)
            found[place] = mode, link, path.read_bytes().decode(errors="replace")
        return found


def kill_everywhere(edit: Edit) -> None:
    """Kill a command at its accesses; type it again, or another one that puts the edit back."""
    total = edit.killed()
    assert total >= KILLS, "it does too little to be killed that often"
    after = edit.files()
    assert after != edit.before
    for number, at in enumerate(points(total, KILLS)):
        edit.start()
        assert edit.killed(at) == -1, at
        if number % 2 and edit.words[0] in {"add", "remove"}:
            done = edit.run("lock")
            assert done.returncode == 0, (at, done.stderr)
            assert edit.files() in (edit.before, after), (at, done.stderr)
            assert edit.run("lock", "--check").returncode == 0, at
        done = edit.run(*edit.words)
        if done.returncode and edit.files() == after and edit.words[0] == "remove":
            assert "does not require" in done.stderr, at  # it was complete
        else:
            assert done.returncode == 0, (at, done.stderr)
        assert edit.files() == after, at
        assert not list(edit.state.rglob("edit.json")), at


ATTACK = pytest.mark.attack(
    "kill -9 before any change of a file by an edit of a project",
    promise="all files are edited or none, as they were but for it, and the next command ends",
)


@pytest.fixture
def shared(shop: Lab) -> Lab:
    """Two targets with locks read one file, which is a link to one that only its owner reads."""
    project = shop.project
    file = project.root / "needs" / "all.txt"
    file.parent.mkdir()
    file.write_text("alpha  # the first\n")
    file.chmod(0o600)
    (project.root / "requirements.txt").symlink_to("needs/all.txt")
    first = project.specs / f"{TARGET}.toml"
    text = first.read_text().replace(
        '["alpha"]', '["beta"]\nfiles = ["requirements.txt"]'
    )
    for name in (TARGET, "other"):
        (project.specs / f"{name}.toml").write_text(text)
        assert call(shop, "lock", target=name) == 0
    return shop


@ATTACK
def test_add(shared: Lab) -> None:
    words = ("add", TARGET, "gamma", "alpha>=1", "--no-build")
    kill_everywhere(Edit(shared.project.root, words))


@ATTACK
def test_remove(shared: Lab) -> None:
    assert call(shared, "add", "gamma", "--no-build") == 0
    assert call(shared, "add", "gamma>=1", "--only-here", "--no-build") == 0
    words = ("remove", TARGET, "gamma", "--no-build")  # of a file and of a spec
    kill_everywhere(Edit(shared.project.root, words))


TARGETS = ("--target", "cpu-linux", "--target", "arc-linux")


@ATTACK
def test_init_of_a_repository(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "more").mkdir(parents=True)
    (root / "requirements.txt").write_text("torch\nnumpy\n-r more/a.txt\n")
    (root / "more" / "a.txt").write_text("flash-attn\n")
    (root / "ignored").write_bytes(b"*.pyc\n# \xff")
    (root / ".gitignore").symlink_to("ignored")
    kill_everywhere(Edit(root, ("init", *TARGETS)))


@ATTACK
def test_init_of_an_empty_folder(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    kill_everywhere(Edit(root, ("init", *TARGETS)))


@ATTACK
def test_export(shared: Lab) -> None:
    root = shared.project.root
    words = ["export", TARGET, "--format", "requirements", "-o", f"{root}/out.txt"]
    edit = Edit(root, tuple(words))
    total = edit.killed()
    after = edit.files()["out.txt"]
    for at in range(total):
        edit.start()
        (root / "out.txt").write_text(after[2] + "# of another lock\n")
        before = edit.files()["out.txt"]
        assert edit.killed(at) == -1, at
        assert edit.files()["out.txt"] in (before, after), at
        assert edit.run(*words).returncode == 0, at
        assert edit.files()["out.txt"] == after, at


@ATTACK
def test_rollback(scene: Scene) -> None:
    lab = scene.lab
    lab.relock(lab.wheel("alpha", "3.0"), lab.wheels[1])
    assert scene.call("build", TARGET).code == 0
    edit = Edit(scene.root, ("rollback", TARGET))
    home = Project(scene.root).environments(TARGET)

    def order() -> list[str]:
        return [one.folder.name for one in last_used(home)]

    def current() -> str:
        return (home / CURRENT).resolve().name

    third, second, first = order()
    for at in range(edit.killed()):
        edit.start()
        assert edit.killed(at) == -1, at
        if current() == third:
            assert order() == [third, second, first], at
            went = second
        else:
            assert order() == [second, first], at
            assert current() == second, at
            went = first
        said = edit.run(*edit.words, "--json")
        assert json.loads(said.stdout)["result"], at
        assert current() == went, at
        assert order()[0] == went, at
        assert scene.works(), at
