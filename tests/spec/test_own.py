"""Own packages: nothing of a build of setuptools stays in their folders."""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from provision.commands.own_sources import install_local
from provision.core.process import Completed
from provision.installer.plan import ArtifactSources
from provision.resolver.uv import UvResolver
from provision.spec.model import Pip, Target
from provision.spec.own import metadata_elsewhere
from tests.lab import Silent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PACKAGE = (
    'from setuptools import setup\nsetup(name="own", version="1", py_modules=["own"])\n'
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "setup.py").write_text(PACKAGE)
    (folder / "own.py").touch()
    return folder


def metadata_of(package: Path, variables: Mapping[str, str]) -> None:
    """Do what each build of setuptools does first."""
    words = [sys.executable, "setup.py", "-q", "egg_info"]
    subprocess.run(words, cwd=package, env={**os.environ, **variables}, check=True)


@pytest.mark.machine
def test_setuptools_writes_its_metadata_elsewhere(
    package: Path, tmp_path: Path
) -> None:
    # Not imported: after another test has loaded distutils, that fails.
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("the tools of a clone have setuptools")
    folder = tmp_path / "settings"
    folder.mkdir()
    metadata_of(package, metadata_elsewhere(folder))
    assert sorted(path.name for path in package.iterdir()) == ["own.py", "setup.py"]
    assert (folder / "own.egg-info").is_dir()
    metadata_of(package, {})
    assert (package / "own.egg-info").is_dir()


def test_lock_and_build_tell_setuptools_so(package: Path) -> None:
    asked = list[str]()

    def run(
        argv: Sequence[str | Path], *, env: Mapping[str, str], **_: object
    ) -> Completed:
        asked.append(env["DIST_EXTRA_CONFIG"])
        return Completed(tuple(map(str, argv)), 0, "", "", 0.1)

    pip = Pip(cutoff=dt.date(2026, 11, 1), local=("-e own",))
    target = Target(
        name="thing",
        summary="s",
        accelerator="cpu",
        platform="linux-64",
        python="3.11",
        pip=pip,
    )
    UvResolver({}, None, run).pins(target)  # type: ignore[arg-type]
    sources = ArtifactSources(wheelhouses=(), indexes={}, offline=False)
    install_local(
        package,
        target,
        package.parent,
        sources,
        run=run,  # type: ignore[arg-type]
        progress=Silent(),
    )
    assert len(asked) == 2
