"""``kill -9`` at each access of an edit to a project's files: all of them are edited, or none.

By number and not by clock: a hook counts what the command is about to do in the project, and kills
it there. Of a verb that edits several files 10 kills are tried, of the others all.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.project import CURRENT, Project
from provision.environment.uses import last_used
from tests.attacks.test_injected import points
from tests.commands.test_edit_spec import call, shop
from tests.small import TARGET

if TYPE_CHECKING:
    from tests.attacks.scene import Scene
    from tests.lab import Lab

__all__ = ["shop"]  # a fixture
pytestmark = pytest.mark.machine
KILLS = 10  # of each verb
# Kills the command at its n-th access to the project, or writes how many there were.
DRIVER = """
import os, signal, sys
at, out, *roots = int(sys.argv[1]), sys.argv[2], *sys.argv[3].split(os.pathsep)
seen = 0
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.symlink", "os.chmod", "os.chown"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def hook(event, arguments):
    global seen
    if event not in EVENTS or (event == "open" and not arguments[2] & WRITING):
        return
    names = [os.fspath(each) for each in arguments if isinstance(each, (str, os.PathLike))]
    if not any(str(name).startswith(tuple(roots)) for name in names):
        return
    seen += 1
    if seen == at:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from provision.cli.main import main
code = main(sys.argv[4:])
roots = ["/nowhere"]
open(out, "w").write(str(seen))
sys.exit(code)
"""


@dataclass
class Edit:
    """A command that edits a project, which can be put back and killed."""

    root: Path
    words: tuple[str, ...]
    folder: Path  # of the user's own state, and of what the test keeps

    def __post_init__(self) -> None:
        self.copy = self.folder / "copy"
        shutil.copytree(self.root, self.copy, symlinks=True)
        self.before = self.files()

    def start(self) -> None:
        """Put the project back as it was, and what the user has of it."""
        shutil.rmtree(self.root)
        shutil.copytree(self.copy, self.root, symlinks=True)
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def run(self, *words: str, at: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command, killed at an access to the project."""
        roots = os.pathsep.join(map(str, (self.root, self.folder / "state")))
        argv = [sys.executable, "-c", DRIVER, str(at), str(self.folder / "seen"), roots]
        argv += [words[0], "--project", str(self.root), *words[1:]]
        env = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, check=False
        )

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

    def accesses(self) -> int:
        """Run it once whole; return how often it gets at the project."""
        done = self.run(*self.words)
        assert done.returncode == 0, done.stderr
        return int((self.folder / "seen").read_text())


def kill_everywhere(edit: Edit) -> None:
    """Kill a command at its accesses; type it again, or another one that puts the edit back."""
    total = edit.accesses()
    assert total >= KILLS, "it does too little to be killed that often"
    moments = [1 + number for number in points(total, KILLS)]
    after = edit.files()
    assert after != edit.before
    for number, at in enumerate(moments):
        edit.start()
        killed = edit.run(*edit.words, at=at)
        assert killed.returncode == -signal.SIGKILL, (at, killed.stderr)
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
        assert not list((edit.folder / "state").rglob("edit.json")), at


ATTACK = pytest.mark.attack(
    "kill -9 at any access of an edit to the project's files",
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
def test_add(shared: Lab, tmp_path: Path) -> None:
    words = ("add", TARGET, "gamma", "alpha>=1", "--no-build")
    kill_everywhere(Edit(shared.project.root, words, tmp_path))


@ATTACK
def test_remove(shared: Lab, tmp_path: Path) -> None:
    assert call(shared, "add", "gamma", "--no-build") == 0
    assert call(shared, "add", "gamma>=1", "--only-here", "--no-build") == 0
    words = ("remove", TARGET, "gamma", "--no-build")  # of a file and of a spec
    kill_everywhere(Edit(shared.project.root, words, tmp_path))


TARGETS = ("--target", "cpu-linux", "--target", "arc-linux")


@ATTACK
def test_init_of_a_repository(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    (root / "more").mkdir(parents=True)
    (root / "requirements.txt").write_text("torch\nnumpy\n-r more/a.txt\n")
    (root / "more" / "a.txt").write_text("flash-attn\n")
    (root / "ignored").write_bytes(b"*.pyc\n# \xff")
    (root / ".gitignore").symlink_to("ignored")
    kill_everywhere(Edit(root, ("init", *TARGETS), tmp_path))


@ATTACK
def test_init_of_an_empty_folder(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    kill_everywhere(Edit(root, ("init", *TARGETS), tmp_path))


@ATTACK
def test_export(shared: Lab, tmp_path: Path) -> None:
    root = shared.project.root
    words = ["export", TARGET, "--format", "requirements", "-o", f"{root}/out.txt"]
    edit = Edit(root, tuple(words), tmp_path)
    total = edit.accesses()
    after = edit.files()["out.txt"]
    for at in range(1, total + 1):
        edit.start()
        (root / "out.txt").write_text(after[2] + "# of another lock\n")
        before = edit.files()["out.txt"]
        edit.run(*words, at=at)
        assert edit.files()["out.txt"] in (before, after), at
        assert edit.run(*words).returncode == 0, at
        assert edit.files()["out.txt"] == after, at


@ATTACK
def test_rollback(scene: Scene, tmp_path: Path) -> None:
    lab = scene.lab
    lab.relock(lab.wheel("alpha", "3.0"), lab.wheels[1])
    assert scene.call("build", TARGET).code == 0
    edit = Edit(scene.root, ("rollback", TARGET), tmp_path)
    home = Project(scene.root).environments(TARGET)

    def order() -> list[str]:
        return [one.folder.name for one in last_used(home)]

    def current() -> str:
        return (home / CURRENT).resolve().name

    third, second, first = order()
    for at in range(1, 1 + edit.accesses()):
        edit.start()
        killed = edit.run(*edit.words, at=at)
        assert killed.returncode == -signal.SIGKILL, (at, killed.stderr)
        assert (current(), order()) in (
            (third, [third, second, first]),
            (second, [second, first]),
        ), at
        went = {third: second, second: first}[current()]
        said = edit.run(*edit.words, "--json")
        assert json.loads(said.stdout)["result"], at
        assert current() == went == order()[0], at
        assert scene.works(), at
