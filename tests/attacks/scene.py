"""A small project with two generations, and every verb that can be tried in it.

:func:`listing` compares what lies around the project before and after: nothing that a verb reads,
however hostile, may change a file there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.tools import LOCKS
from provision.cli import main
from provision.core.process import environment_python, run
from provision.core.project import CURRENT
from tests.lab import open_lab
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

CLONE = Path(__file__).parents[2]
SOLO = "solo"  # the target that is resolved from the catalog alone
HANGS = 600  # seconds; a busy machine may take minutes to read an endless log
LOG = "step 1\nRuntimeError: Found no NVIDIA driver on your system.\n"
# Every verb that ends by itself, and its exit code where nothing is wrong. Not `run`, which becomes
# another program, nor `docker`, which needs an engine.
VERBS: dict[str, tuple[tuple[str, ...], int]] = {
    "targets": (("targets",), 0),
    "detect": (("detect",), 0),
    "schema": (("schema",), 0),
    "sbom": (("sbom", TARGET), 0),
    "lock --check": (("lock", "--check"), 0),
    "verify": (("verify", TARGET), 0),
    "verify --deep": (("verify", TARGET, "--deep"), 0),
    "report": (("report", TARGET, "-o", "{root}/out.html"), 0),
    "doctor --target": (("doctor", "--target", TARGET), 0),
    "doctor --log": (("doctor", "--log", "{root}/program.log"), 1),
    "smoke --if-driver-changed": (("smoke", TARGET, "--if-driver-changed"), 0),
    "smoke": (("smoke", TARGET), 0),
    "build, nothing to do": (("build", TARGET), 0),
    "rollback": (("rollback", TARGET), 0),
    "clean": (("clean",), 0),
    "build": (("build", TARGET), 0),
    # Incomplete: the index of the lab has none of the tools.
    "bundle": (("bundle", TARGET, "-o", "{root}/bundle"), 1),
    "lock": (("lock", SOLO), 0),
    "update": (("update", "vendor"), 0),
}


@dataclasses.dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err

    def check(self, what: str, *, json_wanted: bool = False) -> None:
        """Fail on a traceback, a fault of Provision itself, an unknown code, or broken JSON."""
        assert "Traceback" not in self.said, f"{what}\n{self.said}"
        assert "Provision itself failed" not in self.said, f"{what}\n{self.said}"
        assert "Exception ignored" not in self.said, f"{what}\n{self.said}"
        assert self.code in {0, 1, 2, 3, 130}, f"{what}: {self.code}\n{self.said}"
        if self.code in {2, 3}:
            said = "error" in self.said or "unreadable" in self.said
            assert said, f"{what}: nothing said"
        if json_wanted:
            document = json.loads(self.out)
            assert (document["schema"], document["ok"]) == (1, self.code == 0), what


@dataclasses.dataclass
class Scene:
    """A lab whose state can be put back."""

    lab: Lab

    @property
    def root(self) -> Path:
        return self.lab.project.root

    def words(self, verb: str) -> list[str]:
        return [word.format(root=self.root) for word in VERBS[verb][0]]

    def call(self, *words: str) -> Ended:
        """Run a command in this process."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main.main([words[0], "--project", str(self.root), *words[1:]])
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 2
        return Ended(int(code), out.getvalue(), err.getvalue())

    def start(self, *words: str, prefix: tuple[str, ...] = ()) -> Ended:
        """Run a command in a process of its own."""
        argv = [*prefix, sys.executable, "-I", "-m", "provision", words[0]]
        argv += ["--project", str(self.root), *words[1:]]
        done = run(argv, env=dict(os.environ), timeout=HANGS)
        return Ended(done.returncode, done.stdout, done.stderr)

    def works(self) -> bool:
        """Whether a program runs in the current environment."""
        return self.lab.says("import alpha, beta; print('works')") == "works"


def _add_catalog(lab: Lab) -> None:
    """Add a target that is resolved from the catalog alone, without a network."""
    project, beta = lab.project, lab.wheels[1]
    data = beta.read_bytes()
    entry = {
        "filename": beta.name,
        "url": f"{lab.index.url}/vendor/{beta.name}",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "requires_dist": [],
    }
    vendor = project.catalog / "vendor.json"
    document = json.loads(vendor.read_text(encoding="utf-8")) | {"files": [entry]}
    vendor.write_text(json.dumps(document), encoding="utf-8")
    spec = (project.specs / f"{TARGET}.toml").read_text(encoding="utf-8")
    solo = spec.replace('["alpha"]', '["beta"]')
    (project.specs / f"{SOLO}.toml").write_text(solo, encoding="utf-8")


def _add_toolkit(lab: Lab) -> None:
    """Add what a bundle takes from a clone, with one tool that the index has."""
    for name in (
        "noxfile.py",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
    ):
        shutil.copy(CLONE / name, lab.project.root)
    (lab.project.root / "provision").mkdir()
    tool = lab.wheel("tool")
    digest = hashlib.sha256(tool.read_bytes()).hexdigest()
    lab.project.lock("tools").mkdir()
    for name in LOCKS:
        line = f"tool==1.0 \\\n    --hash=sha256:{digest}\n"
        (lab.project.lock("tools") / name).write_text(line, encoding="utf-8")


@contextlib.contextmanager
def open_scene(folder: Path) -> Iterator[Scene]:
    """Make a scene: generations of alpha 1.0 and 2.0, the second current, a report of each."""
    with open_lab(folder) as lab, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_INDEX_URL", f"{lab.index.url}/default/")
        patch.setenv("UV_INTERNAL__TEST_NO_HTTP_RETRY_DELAY", "true")
        patch.setenv("HOME", str(folder))
        patch.chdir(folder)
        scene = Scene(lab)
        (scene.root / "program.log").write_text(LOG, encoding="utf-8")
        _add_catalog(lab)
        _add_toolkit(lab)
        lab.relock(*lab.wheels)
        ended = scene.call("lock", SOLO)
        assert ended.code == 0, ended.said
        lab.build()
        assert scene.call("smoke", TARGET).code == 0
        lab.relock(lab.wheel("alpha", "2.0"), lab.wheels[1])
        for words in (("build", TARGET), ("smoke", TARGET), ("build", TARGET)):
            ended = scene.call(*words)
            assert ended.code == 0, ended.said
        yield scene


def listing(folder: Path, *without: Path) -> dict[str, str]:
    """Return every path below a folder with its kind, its time and what it holds."""
    found = {}
    for base, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if os.path.join(base, name) not in map(str, without)
        ]
        for name in (*folders, *files):
            path = os.path.join(base, name)
            state = os.lstat(path)
            text = f"{state.st_mode:o} "
            if os.path.islink(path):
                text += os.readlink(path)
            elif name in files:
                with open(path, "rb") as stream:
                    text += f"{state.st_mtime_ns} {hashlib.sha256(stream.read()).hexdigest()}"
            found[path] = text
    return found


class Saved:
    """A copy of a project, which puts back what has changed, with its times."""

    def __init__(self, root: Path, name: str = "saved") -> None:
        self.root, self.copy = root, root.with_name(name)
        shutil.copytree(root, self.copy, symlinks=True)
        self._known = {path: _stamp(path) for path in (root, *root.rglob("*"))}

    def restore(self) -> None:
        self._restore(self.copy, self.root)

    def _restore(self, copy: Path, place: Path) -> None:
        if self._known.get(place) != _stamp(place):
            is_folder = copy.is_dir() and not copy.is_symlink()
            if not (is_folder and place.is_dir() and not place.is_symlink()):
                _remove(place)
                place.mkdir() if is_folder else shutil.copy2(
                    copy, place, follow_symlinks=False
                )
        if copy.is_dir() and not copy.is_symlink():
            for name in {*os.listdir(place)} - {*(names := os.listdir(copy))}:
                _remove(place / name)
            for name in names:
                self._restore(copy / name, place / name)
            shutil.copystat(copy, place)
        self._known[place] = _stamp(place)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return what no change leaves as it was; None where nothing is."""
    if not os.path.lexists(path):
        return None
    state = path.lstat()
    return (
        state.st_ino,
        state.st_mode,
        state.st_size,
        state.st_mtime_ns,
        state.st_ctime_ns,
    )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def current(scene: Scene) -> str:
    return (scene.lab.home / CURRENT).resolve().name


def python_of(scene: Scene) -> Path:
    return environment_python(scene.lab.home / CURRENT)
