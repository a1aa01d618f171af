"""A small project with two generations, and every verb that can be tried in it.

:func:`listing` compares what lies around the project before and after: nothing that a verb reads,
however hostile, may change a file there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.tools import LOCKS
from provision.core.process import run
from provision.core.project import CURRENT
from tests.lab import open_lab, typed
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
    "explain": (("explain", "alpha"), 0),
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

    def check(self, what: str) -> None:
        """Fail on a traceback, a fault of Provision itself, an unknown code, or broken JSON."""
        for fault in ("Traceback", "Provision itself failed", "Exception ignored"):
            assert fault not in self.said, f"{what}\n{self.said}"
        assert self.code in {0, 1, 2, 3, 130}, f"{what}: {self.code}\n{self.said}"
        if self.code in {2, 3}:
            named = "error" in self.said or "unreadable" in self.said
            assert named, f"{what}: nothing said"


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
        done = typed(words[0], "--project", self.root, *words[1:])
        return Ended(done.returncode, done.stdout, done.stderr)

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
    entry = {
        "filename": beta.name,
        "url": f"{lab.index.url}/vendor/{beta.name}",
        "size": beta.stat().st_size,
        "sha256": hashlib.sha256(beta.read_bytes()).hexdigest(),
        "requires_dist": [],
    }
    change(project.catalog / "vendor.json", files=[entry])
    spec = (project.specs / f"{TARGET}.toml").read_text(encoding="utf-8")
    solo = spec.replace('["alpha"]', '["beta"]')
    (project.specs / f"{SOLO}.toml").write_text(solo, encoding="utf-8")


def change(path: Path, **parts: object) -> None:
    """Replace parts of a JSON file."""
    document = json.loads(path.read_text(encoding="utf-8")) | parts
    path.write_text(json.dumps(document), encoding="utf-8")


def _add_toolkit(lab: Lab) -> None:
    """Add what a bundle takes from a clone, with one tool that the index has."""
    root, tools = lab.project.root, lab.project.lock("tools")
    for name in (
        "noxfile.py",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
    ):
        shutil.copy(CLONE / name, root)
    (root / "provision").mkdir()
    tools.mkdir()
    digest = hashlib.sha256(lab.wheel("tool").read_bytes()).hexdigest()
    for name in LOCKS:
        line = f"tool==1.0 \\\n    --hash=sha256:{digest}\n"
        (tools / name).write_text(line, encoding="utf-8")


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
        _call(scene, ("lock", SOLO), ("build", TARGET), ("smoke", TARGET))
        lab.relock(lab.wheel("alpha", "2.0"), lab.wheels[1])
        _call(scene, ("build", TARGET), ("smoke", TARGET), ("build", TARGET))
        yield scene


def _call(scene: Scene, *commands: tuple[str, str]) -> None:
    for words in commands:
        ended = scene.call(*words)
        assert ended.code == 0, ended.said


def within(command: str) -> tuple[str, ...]:
    """What runs a program after a command of the shell, in the state that it leaves."""
    return "sh", "-c", f'{command} && exec "$@"', "sh"


def listing(folder: Path, *without: Path) -> dict[Path, str]:
    """Every path below a folder with its kind, its time and what it holds."""
    found: dict[Path, str] = {}
    for path in folder.rglob("*"):
        if any(path.is_relative_to(part) for part in without):
            continue
        state = path.lstat()
        found[path] = f"{state.st_mode:o}"
        if path.is_symlink():
            found[path] += f" {path.readlink()}"
        elif path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[path] += f" {state.st_mtime_ns} {digest}"
    return found


class Saved:
    """A copy of a project, which can be put back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.copy = Path(tempfile.mkdtemp(dir=root.parent), root.name)
        shutil.copytree(root, self.copy, symlinks=True)

    def restore(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.copy, self.root, symlinks=True)


def current(scene: Scene) -> str:
    return (scene.lab.home / CURRENT).resolve().name
