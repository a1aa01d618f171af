"""Adding one small package to cpu-linux: edited, locked, built, verified and checked.

``uv add`` edits, locks and installs in place; its project requires what the spec requires.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.harness import Contestant, Row, compare, interleave
from benchmarks.workbench import PYTHON, TARGET, UV, Workbench, call
from provision.artifacts.pip_config import read_pip_config
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from pathlib import Path

ADDED = "einops"  # pure, and nothing requires it


def rows(bench: Workbench) -> list[Row]:
    """Return the row of an addition that leaves torch and all that it needs as it is."""
    call(bench.provision("build", TARGET))
    spec = bench.project() / "envs" / f"{TARGET}.toml"
    ours = {path: path.read_bytes() for path in (spec, bench.lock())}
    theirs = _uv_project(bench)
    uv = [UV, "--project", str(bench.folder / "uv")]

    def before_ours() -> None:
        _restore(ours)
        # The old generation is current again, and the new one is gone.
        call(bench.provision("build", TARGET), bench.provision("clean", TARGET))

    def before_theirs() -> None:
        _restore(theirs)
        call([*uv, "sync"])

    seconds = interleave(
        [
            Contestant("uv add", lambda: call([*uv, "add", ADDED]), before_theirs),
            Contestant(
                "provision add",
                lambda: call(bench.provision("add", TARGET, ADDED)),
                before_ours,
            ),
        ],
        bench.rounds,
    )
    return compare("one small package", seconds, "provision add")


def _uv_project(bench: Workbench) -> dict[Path, bytes]:
    """Make a project of uv with the same requirements; return its files with their content."""
    folder = bench.folder / "uv"
    folder.mkdir()
    requirements = load_target(bench.project() / "envs", TARGET).pip.requirements
    settings = {
        "project.name": "bench",
        "project.version": "0",
        "project.requires-python": f"=={PYTHON}.*",
        "project.dependencies": list(requirements),
        "tool.uv.environments": [
            "sys_platform == 'linux' and platform_machine == 'x86_64'"
        ],
        "tool.uv.find-links": list(map(str, read_pip_config().wheelhouses)),
    }
    # TOML takes JSON's texts and lists.
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    (folder / "pyproject.toml").write_text("".join(lines), encoding="utf-8")
    call([UV, "--project", str(folder), "sync", "--python", PYTHON])
    return {
        path: path.read_bytes()
        for path in (folder / "pyproject.toml", folder / "uv.lock")
    }


def _restore(files: dict[Path, bytes]) -> None:
    for path, content in files.items():
        path.write_bytes(content)
