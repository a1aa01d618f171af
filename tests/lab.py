"""What a test of a build needs: a project in miniature, its index, and the means to change both."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.cli.main import main
from provision.commands.build import build
from provision.commands.build_request import BuildRequest, BuildResult
from provision.core.process import clean_environment, environment_python, run
from provision.core.program import uv_program
from provision.core.project import CURRENT
from provision.installer.plan import ArtifactSources
from provision.installer.uv import interpreter
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests.small import PYTHON, TARGET, Index, lock, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from provision.core.process import Completed
    from provision.core.progress import Look
    from provision.core.project import Project


class Silent:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.looks: list[Look] = []
        self.notes: list[str] = []

    def step(self, text: str, look: Look = dict) -> None:
        self.steps.append(text)
        self.looks.append(look)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclasses.dataclass
class Lab:
    """A project, the index it builds from, and the means to change both."""

    project: Project
    index: Index
    wheels: list[Path]
    listener: Silent

    @property
    def home(self) -> Path:
        return self.project.environments(TARGET)

    def wheel(
        self, name: str, version: str = "1.0", index: str = "default", text: str = ""
    ) -> Path:
        files = {f"{name}.py": text or f"version = {version!r}\n"}
        return make_wheel(self.index.root / index, name, version, files)

    def relock(self, *wheels: Path) -> None:
        self.wheels = list(wheels)
        lock(self.project, self.wheels)

    def order(
        self, *, smoke: bool = True, absent: str = "", **supply: object
    ) -> BuildRequest:
        indexes = {
            "default": f"{self.index.url}/default/",
            "vendor": f"{self.index.url}/vendor/",
        }
        sources = ArtifactSources(wheelhouses=(), indexes=dict(indexes), offline=False)
        return BuildRequest(
            self.project,
            load_target(self.project.specs, TARGET),
            read_lock(self.project.lock(TARGET)),
            dataclasses.replace(sources, **supply),  # type: ignore[arg-type]
            smoke=smoke,
            absent=absent,
            stack=lambda: {"kernel": "6.1"},
        )

    def build(self, **options: object) -> BuildResult:
        return build(self.order(**options), _run_without_delays, self.listener)  # type: ignore[arg-type]

    def says(self, code: str) -> str:
        """Run a line in the current environment."""
        python = environment_python(self.home / CURRENT)
        return run([python, "-I", "-c", code]).require("it ran").stdout.strip()

    def left(self) -> list[str]:
        """What lies in the target's folder, but for the lock file and the reports."""
        return sorted(
            p.name
            for p in self.home.iterdir()
            if p.name not in {".lock", ".not-passed-on", ".seals", ".used", "reports"}
        )


def _run_without_delays(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401
) -> Completed:
    """Run a command as the toolkit does; uv retries failed downloads as often, but at once."""
    at_once = {"UV_INTERNAL__TEST_NO_HTTP_RETRY_DELAY": "true"}
    return run(
        argv,
        env={**(clean_environment() if env is None else env), **at_once},
        **options,
    )


@contextlib.contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """Make a lab in a folder, with a cache of its own, until the block ends."""
    with serve(folder / "index") as index, entered(folder):
        yield make_lab(folder, index)


def make_lab(folder: Path, index: Index) -> Lab:
    made = Lab(make_project(folder / "project", index), index, [], Silent())
    made.relock(made.wheel("alpha"), made.wheel("beta", index="vendor"))
    return made


@contextlib.contextmanager
def entered(folder: Path) -> Iterator[None]:
    """Set the variables of a lab until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_CACHE_DIR", str(new_cache(folder / "cache")))
        # No Python of uv's: its server must not be asked, and a bundle does without.
        patch.setenv("UV_PYTHON_INSTALL_MIRROR", (folder / "mirror").as_uri())
        yield


def new_cache(folder: Path) -> Path:
    """Make a cache for uv that has no wheel, but knows what uv would ask each Python first."""
    if not folder.exists():
        shutil.copytree(_cache_of_interpreters(), folder)
    return folder


@functools.cache
def _cache_of_interpreters() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="uv-cache-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    env = clean_environment(extra={"UV_CACHE_DIR": str(folder / "cache")})
    # The tools' own Python, and the one that environments are made from.
    for python in (sys.executable, interpreter(PYTHON)):
        argv = [uv_program(), "venv", "--no-config", "--clear", "--python", python]
        run([*argv, folder / "environment"], env=env).require("made an environment")
    return folder / "cache"


@dataclasses.dataclass
class KeptLab:
    """A lab that was built, in its place, and a copy of it there."""

    folder: Path
    copy: Path
    lab: Lab

    @contextlib.contextmanager
    def again(self) -> Iterator[Lab]:
        """Put everything back as it was after the build, and yield the lab."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder, symlinks=True)
        index = self.lab.index
        vars(index).update(vars(Index(index.root, index.url)))
        with entered(self.folder):
            yield Lab(self.lab.project, index, [*self.lab.wheels], Silent())


@contextlib.contextmanager
def keep_lab(parent: Path) -> Iterator[KeptLab]:
    """Build a lab whose state can be put back, until the block ends."""
    folder = parent / "lab"
    with serve(folder / "index") as index:
        with entered(folder):
            made = make_lab(folder, index)
            made.build()
        yield KeptLab(
            folder, shutil.copytree(folder, parent / "copy", symlinks=True), made
        )


def typed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    line = [str(word) for word in words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(line)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 2
    return subprocess.CompletedProcess(line, code, out.getvalue(), err.getvalue())


def without_a_route() -> list[str]:
    """Return what a command is prefixed with to run in an empty network namespace."""
    alone = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        reason = "this machine lets nobody make a network namespace"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return alone


def kill(child: subprocess.Popen[bytes], *, alone: bool) -> None:
    """Kill a command: it alone, which leaves at work what it started, or with all of that."""
    for pid in [child.pid] if alone else [child.pid, *descendants(child.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    child.wait()


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have."""
    with contextlib.suppress(OSError):
        children = (
            Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        )
        return [
            found
            for child in map(int, children)
            for found in (child, *descendants(child))
        ]
    return []
