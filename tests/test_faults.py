"""Promise 6 by force: kills beside a running program and of a real build, a full disk, a dead server.

Takes minutes, so ``nox -s faults`` runs it.
The kills of all verbs are in ``tests/attacks/test_kills.py``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import ToolError
from provision.core.process import environment_python, run
from provision.environment.manifest import unfinished_generations
from provision.lockfile.pip import PIP_LAYER
from tests.lab import kill, open_lab
from tests.small import TARGET, reseal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[1]
MOMENTS_IN_USE = 24
REAL_MOMENTS = 6
VERBS = (
    ("build", TARGET),
    ("clean", "--all"),
    ("verify", TARGET, "--repair"),
    ("rollback", TARGET),
)


# It loads a file of its environment again each time that it gets a line.
SERVER = """
import importlib, sys, alpha, beta
print("ready", flush=True)
for line in sys.stdin:
    importlib.invalidate_caches()
    print(importlib.reload(beta).version, alpha.version, flush=True)
"""


def test_a_program_goes_on_while_everything_around_it_is_killed(tmp_path: Path) -> None:
    with open_lab(tmp_path) as lab:
        first = lab.build().generation
        assert first is not None
        tool = [sys.executable, "-I", "-m", "provision"]
        place = ["--project", str(lab.project.root)]
        with subprocess.Popen(
            [*tool, "run", *place, TARGET, "python", "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            for number in range(MOMENTS_IN_USE):
                lab.relock(lab.wheel("alpha", f"2.{number}"), lab.wheels[1])
                verb = VERBS[number % len(VERBS)]
                index = {"PIP_INDEX_URL": f"{lab.index.url}/default/"}
                child = subprocess.Popen(
                    [*tool, verb[0], *place, *verb[1:]],
                    env=os.environ | index,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                time.sleep(0.03 + 0.6 * number / MOMENTS_IN_USE)
                kill(child, alone=number % 2 == 0)
                program.stdin.write("again\n")
                program.stdin.flush()
                assert program.stdout.readline() == "1.0 1.0\n", verb
                assert lab.build().generation is not None, verb
                assert (
                    lab.says("import alpha; print(alpha.version)") == f"2.{number}"
                ), verb
            program.stdin.close()
            assert program.wait() == 0
        subprocess.run([*tool, "clean", *place], check=True, stderr=subprocess.DEVNULL)
        assert not first.folder.exists()
        assert len(lab.left()) == 2


def test_killed_while_building_the_real_thing(tmp_path: Path) -> None:
    for part in ("envs", "lockfiles", "smoke"):
        shutil.copytree(ROOT / part, tmp_path / part)
    argv = [sys.executable, "-I", "-m", "provision", "build", "cpu-linux", "--no-smoke"]
    command = [*argv, "--project", str(tmp_path)]
    home = tmp_path / ".envs" / "cpu-linux"
    started = time.monotonic()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    whole = time.monotonic() - started
    for number in range(REAL_MOMENTS):
        current = (home / "current").resolve()
        _make_drift(current)
        child = subprocess.Popen(
            command, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(whole * (number + 0.5) / REAL_MOMENTS)
        kill(child, alone=number % 2 == 0)
        python = environment_python(home / "current")
        code = "import torch; print(torch.ones(2).sum().item())"
        assert run([python, "-I", "-c", code]).require("it works").stdout == "2.0\n"
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        assert unfinished_generations(home) == []
        shutil.rmtree(current)


def _make_drift(generation: Path) -> None:
    """Rename one package's metadata, so that the next build has to make a fresh generation."""
    (info,) = generation.rglob("iniconfig-*.dist-info")
    info.rename(info.with_name("iniconfig-0.dist-info"))


@contextlib.contextmanager
def _mounted(folder: Path, *options: str) -> Iterator[None]:
    if os.geteuid() != 0:
        reason = "mounting needs root"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *options, str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_leaves_the_old_current(lab: Lab) -> None:
    with _mounted(lab.home, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        lab.build()
        noise = os.urandom(3_000_000).hex()
        lab.relock(
            lab.wheel("alpha", "2.0", text=f"noise = '{noise}'\n"), lab.wheels[1]
        )
        with pytest.raises(ToolError) as caught:
            lab.build()
        assert "free" in caught.value.what  # found before anything was written
        _unsize(lab)
        with pytest.raises(ToolError) as caught:
            lab.build()
        assert "No space left" in caught.value.evidence
        assert lab.says("import alpha; print(alpha.version)") == "1.0"
        assert len(lab.left()) == 2


def _unsize(lab: Lab) -> None:
    """Make the lock forget sizes, so that the disk's end comes as a surprise."""
    path = lab.project.lock(TARGET) / PIP_LAYER
    text = re.sub(" *# size: .*\n", "", path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    reseal(path.parent)


def test_a_server_that_stalls_is_given_up(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "UV_HTTP_TIMEOUT", "3"
    )  # seconds; uv's 30 and its retries take minutes
    lab.build()
    lab.relock(lab.wheel("alpha", "2.0"), lab.wheels[1])
    lab.index.fault = "stall"
    with pytest.raises(ToolError, match="could not install from the default index"):
        lab.build()
    assert lab.says("import alpha; print(alpha.version)") == "1.0"
    assert len(lab.left()) == 2
