"""Shared by all subjects: a copy of this project, its programs, and a folder of every wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.artifacts.parallel_fetch import fetch_all, wanted_wheel
from provision.artifacts.pip_config import read_pip_config
from provision.core.program import uv_program
from provision.lockfile.pip import read_lock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[1]
TARGET = "cpu-linux"
PYTHON = "3.11"
PROVISION = [sys.executable, "-I", "-m", "provision"]
UV = uv_program()


class Quiet:
    """Progress that is not shown."""

    def step(self, text: str, *_: object) -> None:
        """Ignore a step."""

    def note(self, text: str) -> None:
        """Ignore a note."""


def call(
    *commands: Sequence[str | Path],
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    accepted: Sequence[int] = (0,),
) -> None:
    """Run commands one after the other; an exit code that is not accepted ends the benchmark."""
    for command in commands:
        done = subprocess.run(
            command,
            env=os.environ | (env or {}),
            input=stdin,
            capture_output=True,
            check=False,
        )
        if done.returncode not in accepted:
            sys.stderr.buffer.write(done.stderr)
            raise subprocess.CalledProcessError(
                done.returncode, [str(word) for word in command]
            )


@dataclass(frozen=True, slots=True)
class Workbench:
    """Where a subject works.

    Attributes:
        folder: A temporary folder on the disk that holds the project.
        rounds: How many rounds to time.
        tools: The Python of the environment that holds the tools to compare with.
    """

    folder: Path
    rounds: int
    tools: Path

    def project(self) -> Path:
        """Return a copy of the project's specs, locks and checks, made at the first call."""
        project = self.folder / "project"
        if not project.exists():
            for part in ("envs", "lockfiles", "smoke"):
                shutil.copytree(ROOT / part, project / part)
        return project

    def provision(self, *words: str) -> list[str]:
        """Return the command that runs Provision in the copy."""
        return [*PROVISION, *words, "--project", str(self.project())]

    def lock(self) -> Path:
        """Return the pip layer of the target's lock in the copy."""
        return self.project() / "lockfiles" / TARGET / "requirements.txt"

    def wheelhouse(self) -> Path:
        """Return a folder that holds every wheel of the target, filled at the first call."""
        folder = self.folder / "wheelhouse"
        if not folder.exists():
            pip = read_pip_config()
            artifacts = read_lock(self.lock().parent).artifacts
            wanted = [wanted_wheel(artifact, pip.index_url) for artifact in artifacts]
            if missing := fetch_all(wanted, folder, pip.wheelhouses, Quiet()):
                raise RuntimeError("\n".join(map(str, missing)))
        return folder

    def built(self) -> Path:
        """Return the target's environment in the copy, built if it is not there."""
        call(self.provision("build", TARGET, "--no-smoke"))
        return (self.project() / ".envs" / TARGET / "current").resolve()

    def proven(self) -> None:
        """Build the target's environment with its checks, which is what people build again."""
        self.built()
        call(self.provision("smoke", TARGET))
