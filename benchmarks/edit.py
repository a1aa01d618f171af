"""``add`` and ``remove`` of a pure package beside ``uv add`` and ``uv remove``.

uv changes one environment in place. Provision makes another one beside it, compares every file of it
with its hash, and checks what the change can have touched.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness import Contestant, Row, compare, interleave
from benchmarks.workbench import PYTHON, TARGET, UV, Workbench, call
from provision.artifacts.pip_config import read_pip_config
from provision.lockfile.pip import read_lock

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "tabulate"  # pure, and looked for by torch, where it is installed


def rows(bench: Workbench) -> list[Row]:
    """Return the rows of both, in a project whose environment is proven."""
    call(bench.provision("build", TARGET))
    mirror = read_pip_config().index_url
    env = {"UV_DEFAULT_INDEX": mirror} if mirror else {}
    folder = _uv_project(bench)
    by_uv = partial(_uv, folder, env)
    by_us = partial(_provision, bench)
    by_uv("sync")
    found = []
    by_uv("add", PACKAGE)
    by_us("add", PACKAGE)

    def remove_its_generation() -> None:
        by_us("remove", PACKAGE)
        call(bench.provision("clean", TARGET))

    # Each round begins by taking the change back.
    for verb, by_uv_before, by_us_before in (
        ("add", partial(by_uv, "remove", PACKAGE), remove_its_generation),
        ("remove", partial(by_uv, "add", PACKAGE), partial(by_us, "add", PACKAGE)),
    ):
        tool = f"provision {verb}"
        contestants = [
            Contestant(f"uv {verb}", partial(by_uv, verb, PACKAGE), by_uv_before),
            Contestant(tool, partial(by_us, verb, PACKAGE), by_us_before),
        ]
        found += compare("a pure package", interleave(contestants, bench.rounds), tool)
    return found


def _uv_project(bench: Workbench) -> Path:
    """Make a project of uv that has all that the target has."""
    folder = bench.folder / "uv-project"
    folder.mkdir()
    pins = [f"{a.name}=={a.version}" for a in read_lock(bench.lock().parent).artifacts]
    text = f"""
[project]
name = "beside"
version = "1"
requires-python = "=={PYTHON}.*"
dependencies = {json.dumps(pins)}
[tool.uv]
find-links = {json.dumps([str(bench.wheelhouse())])}
environments = ["sys_platform == 'linux' and platform_machine == 'x86_64'"]
"""
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def _uv(folder: Path, env: dict[str, str], *words: str) -> None:
    call([UV, *words, "--project", str(folder)], env=env)


def _provision(bench: Workbench, verb: str, package: str) -> None:
    call(bench.provision(verb, TARGET, package))
