"""Faults of a real machine: no files, memory, disk or semaphores, closed streams, odd files."""

from __future__ import annotations

import compileall
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import provision
from provision.core import tree_hashing
from provision.core.process import Completed, run
from provision.core.project import RECORD
from provision.lockfile.pip import PIP_LAYER
from tests.attacks.scene import VERBS, change, within
from tests.small import TARGET

if TYPE_CHECKING:
    from tests.attacks.scene import Scene

pytestmark = pytest.mark.machine
READING = ("targets", "lock --check", "verify --deep", "doctor --target")
NOTHING = "build, nothing to do"


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    # Python 3.11 leaves half a .pyc where a file may not grow, and takes it for whole (its issue
    # 126606): the toolkit of this checkout would be broken from then on.
    compileall.compile_dir(Path(provision.__file__).parent, quiet=1)


@pytest.mark.attack(
    "no file, process, memory or disk is left (ulimit)",
    promise="an error with a remedy, code 3",
)
@pytest.mark.parametrize(
    "limit", ["n 8", "n 18", "f 0", "v 60000", "v 120000", "s 256"]
)
@pytest.mark.parametrize("verb", [*READING, NOTHING, "smoke", "rollback", "bundle"])
def test_limits_of_the_shell(scene: Scene, verb: str, limit: str) -> None:
    ended = scene.start(*scene.words(verb), prefix=within(f"ulimit -{limit}"))
    # With too little memory for Python itself, there is nothing of the toolkit that could say so.
    python = re.search("import|Fatal Python|MemoryError|unraisablehook", ended.said)
    if not (limit.startswith("v") and python):
        ended.check(f"{verb} under {limit}")
    assert scene.works()
    assert scene.call(*scene.words(verb)).code in {VERBS[verb][1], 2}


def mounted(command: str) -> tuple[str, ...]:
    """What runs a program after a mount of its own."""
    prefix = ("unshare", "--mount", "--map-root-user", *within(command))
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        reason = "this machine lets nobody mount"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return prefix


@pytest.mark.attack(
    "a read-only project", promise="what writes says so, what reads works"
)
@pytest.mark.parametrize("verb", VERBS)
def test_read_only(scene: Scene, verb: str) -> None:
    root = scene.root
    prefix = mounted(f"mount --bind {root} {root} && mount -o remount,bind,ro {root}")
    ended = scene.start(*scene.words(verb), prefix=prefix)
    ended.check(verb)
    assert ended.code in {VERBS[verb][1], 3} or "Read-only" in ended.said
    assert scene.works()


@pytest.mark.attack(
    "no semaphores: /dev/shm is read-only", promise="hashed all the same"
)
def test_without_semaphores(scene: Scene) -> None:
    text = f"noise = '{os.urandom(9_000_000).hex()}'\n"
    big = scene.lab.wheel("alpha", "4.0", text=text)
    scene.lab.relock(big, scene.lab.wheels[1])
    assert scene.call("build", TARGET).code == 0
    prefix = mounted("mount -t tmpfs -o ro tmpfs /dev/shm")
    ended = scene.start("verify", TARGET, "--deep", prefix=prefix)
    assert (ended.code, "Traceback" in ended.said) == (0, False), ended.said


@pytest.mark.attack("a process that hashes is killed", promise="hashed in one process")
def test_a_killed_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        (tmp_path / f"{number}").write_bytes(b"x" * number)
    sizes = {str(number): number for number in range(100)}
    expected = tree_hashing.sha256_below(tmp_path, sizes)
    monkeypatch.setattr(tree_hashing, "_WORTH_A_PROCESS", 1)
    started = list[list[str]]()

    def dying(argv: list[str], *, stdin: str) -> Completed:
        started.append(argv)
        if len(started) == 2:
            argv = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
        return run(argv, stdin=stdin)

    monkeypatch.setattr(tree_hashing, "run", dying)
    assert tree_hashing.sha256_below(tmp_path, sizes) == expected
    assert len(started) > 1


@pytest.mark.attack(
    "no process can be started for hashing", promise="hashed in one process"
)
@pytest.mark.parametrize("after", [0, 1])
def test_no_second_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x")
    real: Any = subprocess.Popen
    started = list[list[str]]()

    def start(words: list[str], **options: object) -> object:
        started.append(words)
        if len(started) > after:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return real(words, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(tree_hashing, "_WORTH_A_PROCESS", 1)
    hashes = tree_hashing.sha256_below(tmp_path, {"a": 1, "b": 1})
    assert hashes == dict.fromkeys(("a", "b"), hashlib.sha256(b"x").hexdigest())
    assert len(started) > after


@pytest.mark.attack(
    "the current folder is removed", promise="an error or the result, no traceback"
)
def test_no_current_folder(scene: Scene, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    prefix = within(f"mkdir {gone} && cd {gone} && rmdir {gone}")
    for verb in ("targets", "verify", "schema"):
        scene.start(*scene.words(verb), prefix=prefix).check(verb)
    # And where the project is looked for in the current folder.
    argv = [*prefix, sys.executable, "-I", "-m", "provision", "targets"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 2, 3}
    assert "Traceback" not in done.stderr


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # the address of a socket has at most 107 characters
        made.bind(path.name)


ODD = {
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a folder": lambda path: path.symlink_to(".."),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a folder": lambda path: path.mkdir(),
    "garbage": lambda path: path.write_bytes(os.urandom(5000)),
    "nothing": lambda path: path.write_bytes(b""),
}


@pytest.mark.attack(
    "a pipe, device, socket or link in place of an installed file",
    promise="a finding, no hang",
)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "place", ["alpha.py", "stray.py", "alpha-2.0.dist-info/METADATA"]
)
def test_odd_installed_files(
    scene: Scene, kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scene.root)
    (site,) = scene.lab.home.glob("current/lib/*/site-packages")
    path = site / place
    path.unlink(missing_ok=True)
    ODD[kind](path)
    if path.is_dir() and not path.is_symlink():  # an empty folder is nothing
        (path / "module.py").touch()
    for verb in ("verify", "verify --deep"):
        ended = scene.start(*scene.words(verb))
        ended.check(f"{kind} as {place}")
        assert ended.code == 1, ended.said
        assert place.partition("/")[0] in ended.said or "alpha" in ended.said
    for verb in ("doctor --target", NOTHING):
        scene.start(*scene.words(verb)).check(f"{kind} as {place}")


@pytest.mark.attack(
    "a pipe, device, socket or link in place of a file of the project",
    promise="an error, no hang",
)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "place", ["spec", "lock", "catalog", "devices", "record", "report"]
)
def test_odd_project_files(
    scene: Scene, kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scene.root)
    project = scene.lab.project
    path = {
        "spec": project.specs / f"{TARGET}.toml",
        "lock": project.lock(TARGET) / PIP_LAYER,
        "catalog": project.catalog / "vendor.json",
        "devices": project.catalog / "devices.toml",
        "record": (scene.lab.home / "current").resolve() / RECORD,
        "report": max((scene.lab.home / "reports").iterdir()),
    }[place]
    path.unlink()
    ODD[kind](path)
    for verb in (*READING, "report", "smoke --if-driver-changed", NOTHING):
        scene.start(*scene.words(verb)).check(f"{kind} as {place}: {verb}")


@pytest.mark.attack(
    "a check measures NaN or infinity", promise="left out of plots and comparisons"
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e308, 5e-324])
def test_numbers_that_are_none(scene: Scene, value: float) -> None:
    error = {"value": value, "unit": "1", "limit": value, "rounds": [1.0, value]}
    numbers = {"error": error, "rate": {"value": value, "unit": "image/s"}}
    for path in (scene.lab.home / "reports").iterdir():
        (check,) = json.loads(path.read_text(encoding="utf-8"))["checks"]
        change(path, checks=[check | {"numbers": numbers}])
    for verb in ("report", "smoke", "smoke --if-driver-changed", "targets"):
        ended = scene.call(*scene.words(verb))
        ended.check(f"{verb}: {value}")
        assert ended.code == 0, ended.said


@pytest.mark.attack("a log that never ends", promise="given up with words")
@pytest.mark.parametrize("source", ["/dev/zero", "-"])
def test_endless_logs(
    scene: Scene, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "yes 'RuntimeError: some line' |" if source == "-" else ""
    shell = ("bash", "-c", f'{command} "$@"', "bash")
    ended = scene.start("doctor", "--log", source, prefix=shell)
    assert ended.code == 2
    assert "which is the limit" in ended.said


@pytest.mark.attack("a log of 200 MB", promise="read in bounded memory")
def test_a_large_log(scene: Scene, tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    with log.open("wb") as stream:
        for number in range(200):
            stream.write(f"step {number} {os.urandom(20).hex()}\n".encode() * 18_000)
        stream.write(b"RuntimeError: Found no NVIDIA driver on your system.\n")
    assert log.stat().st_size > 150_000_000
    prefix = within("ulimit -v 900000")
    ended = scene.start("doctor", "--log", str(log), prefix=prefix)
    assert ended.code == 1, ended.said
    assert "driver-missing" in ended.said, ended.said
