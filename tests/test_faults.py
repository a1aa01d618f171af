"""Promise 6 by force: kills at a hundred moments, a full disk, a read-only folder, a dead server.

Takes minutes, so ``nox -s faults`` runs it, and prints how many moments were tried and survived.
"""

from __future__ import annotations

import contextlib
import json
import os
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
from provision.lockfile.pip import PIP_LAYER, read_lock
from tests.lab import kill, open_lab
from tests.small import TARGET, reseal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[1]
MOMENTS = 100
MOMENTS_IN_USE = 40
REAL_MOMENTS = 6


def _start(lab: Lab) -> subprocess.Popen[bytes]:
    """Start a build from the command line, in a process group of its own."""
    environment = {**os.environ, "PIP_INDEX_URL": f"{lab.index.url}/default/"}
    argv = [sys.executable, "-I", "-m", "provision", "build", TARGET, "--project"]
    return subprocess.Popen(
        [*argv, lab.project.root],
        env=environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_killed_at_a_hundred_moments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_lab(tmp_path) as lab:
        lab.build()
        old = lab.wheels
        new = (lab.wheel("alpha", "2.0"), lab.wheels[1])
        whole = min(_seconds_of_a_build(lab, old, new) for _ in range(3))
        survived = finished = 0
        for number in range(MOMENTS):
            finished += _one_kill(
                lab, new, whole * number / MOMENTS, alone=number % 2 == 0
            )
            survived += 1
            _reset(lab, old)
    with capsys.disabled():
        print(
            f"\nkill -9 over {whole:.2f} s: {MOMENTS} moments, {survived} survived "
            f"({finished} of them had already ended)"
        )
    assert finished < MOMENTS / 2  # or the kills came too late to mean anything


def _seconds_of_a_build(lab: Lab, old: list[Path], new: tuple[Path, ...]) -> float:
    lab.relock(*new)
    started = time.monotonic()
    assert _start(lab).wait() == 0
    seconds = time.monotonic() - started
    _reset(lab, old)
    return seconds


def _reset(lab: Lab, wheels: list[Path]) -> None:
    """Go back to the old lock, and forget the new one's generation and downloads."""
    lab.relock(*wheels)
    keep = read_lock(lab.project.lock(TARGET)).digest[:16]
    lab.build()
    for path in lab.home.iterdir():
        if (
            path.is_dir()
            and not path.is_symlink()
            and path.name not in {keep, "reports"}
        ):
            shutil.rmtree(path)


def _one_kill(
    lab: Lab, wheels: tuple[Path, ...], moment: float, *, alone: bool
) -> bool:
    lab.relock(*wheels)
    child = _start(lab)
    time.sleep(moment)
    ended = child.poll() is not None
    kill(child, alone=alone)
    assert lab.says("import alpha, beta; print('works')") == "works", (
        f"at {moment:.3f} s"
    )
    assert lab.build().generation is not None, f"at {moment:.3f} s"
    assert lab.says("import alpha; print(alpha.version)") == "2.0", f"at {moment:.3f} s"
    assert unfinished_generations(lab.home) == [], f"at {moment:.3f} s"
    return ended


# It loads a file of its environment again each time that it gets a line.
SERVER = """
import importlib, sys, alpha, beta
print("ready", flush=True)
for line in sys.stdin:
    importlib.invalidate_caches()
    print(importlib.reload(beta).version, alpha.version, flush=True)
"""


def test_a_program_goes_on_while_everything_around_it_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
                verb = (
                    ("build", TARGET),
                    ("clean", "--all"),
                    ("verify", TARGET, "--repair"),
                    ("rollback", TARGET),
                )[number % 4]
                environment = {
                    **os.environ,
                    "PIP_INDEX_URL": f"{lab.index.url}/default/",
                }
                child = subprocess.Popen(
                    [*tool, verb[0], *place, *verb[1:]],
                    env=environment,
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
            assert unfinished_generations(lab.home) in ([], [first.folder])
            program.stdin.close()
            assert program.wait() == 0
        subprocess.run([*tool, "clean", *place], check=True, stderr=subprocess.DEVNULL)
        assert not first.folder.exists()
        assert len(lab.left()) == 2
    with capsys.disabled():
        print(
            f"\nkill -9 beside a running program: {MOMENTS_IN_USE} moments, it went on in all"
        )


def test_killed_while_building_the_real_thing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    with capsys.disabled():
        print(
            f"\nkill -9 over {whole:.1f} s of cpu-linux: {REAL_MOMENTS} moments, all survived"
        )


# Verb -> what it is given to do, on the real thing; `lock` and `update` need the network.
REAL_VERBS = {
    "repair": (("verify", "cpu-linux", "--repair", "--no-smoke"), 3),
    "rollback": (("rollback", "cpu-linux"), 2),
    "clean": (("clean", "cpu-linux"), 2),
    "smoke": (("smoke", "cpu-linux", "--json"), 3),
}
# What a run may find beside other tests: the machine's speed is not what is tested here.
SLOWER = {"slowed", "takes-longer"}


@pytest.mark.parametrize("verb", REAL_VERBS)
def test_killed_in_other_verbs_of_the_real_thing(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("envs", "lockfiles", "smoke"):
        shutil.copytree(ROOT / part, tmp_path / part)
    argv = [sys.executable, "-I", "-m", "provision"]
    place = ["--project", str(tmp_path)]
    build = [*argv, "build", "cpu-linux", "--no-smoke", *place]
    words, moments = REAL_VERBS[verb]
    home = tmp_path / ".envs" / "cpu-linux"

    def prepare() -> None:
        """Make two generations, the current one drifted if it is to be repaired."""
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run(build, check=True, stderr=subprocess.DEVNULL)
        _make_drift((home / "current").resolve())
        subprocess.run(build, check=True, stderr=subprocess.DEVNULL)
        if verb == "repair":
            _make_drift((home / "current").resolve())

    prepare()
    started = time.monotonic()
    finished = subprocess.run(
        [*argv, *words, *place], check=False, stderr=subprocess.DEVNULL
    )
    assert finished.returncode == 0
    whole = time.monotonic() - started
    for number in range(moments):
        if verb != "smoke":
            prepare()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(
            [*argv, *words, *place], start_new_session=True, **quiet
        )  # type: ignore[call-overload]
        time.sleep(whole * (number + 0.5) / moments)
        kill(child, alone=number % 2 == 0)
        code = "import torch; print(torch.ones(2).sum().item())"
        python = environment_python(home / "current")
        assert run([python, "-I", "-c", code]).require("it works").stdout == "2.0\n"
        again = subprocess.run(
            [*argv, *words, *place], check=False, capture_output=True, text=True
        )
        if verb == "smoke" and again.returncode == 1:
            found = json.loads(again.stdout)["result"]["comparison"]["findings"]
            assert {each["code"] for each in found if each["level"] != "note"} <= SLOWER
        else:  # a kill after the swap leaves nothing earlier to go back to
            gone = "no earlier generation" in again.stderr
            assert again.returncode == 0 or gone, again.stderr
        assert run([python, "-I", "-c", code]).require("it works").stdout == "2.0\n"
        assert unfinished_generations(home) == []
    with capsys.disabled():
        print(
            f"\nkill -9 over {whole:.1f} s of {verb} of cpu-linux: {moments} moments, survived"
        )


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
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(
        "".join(line for line in lines if "# size:" not in line), encoding="utf-8"
    )
    reseal(path.parent)


def test_a_read_only_folder_is_said_so(lab: Lab) -> None:
    with _mounted(lab.home, "-t", "tmpfs", "-o", "ro", "tmpfs"):
        with pytest.raises(ToolError, match="cannot work in") as caught:
            lab.build()
        assert "Read-only file system" in caught.value.evidence


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


def test_a_server_that_is_gone_is_named(lab: Lab) -> None:
    lab.build()
    lab.relock(lab.wheel("alpha", "2.0"), lab.wheels[1])
    indexes = {
        "default": "http://127.0.0.1:9/default/",
        "vendor": f"{lab.index.url}/vendor/",
    }
    with pytest.raises(ToolError) as caught:
        lab.build(indexes=indexes)
    assert "http://127.0.0.1:9/default/" in caught.value.remedy
    assert lab.says("import alpha; print(alpha.version)") == "1.0"
