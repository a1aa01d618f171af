"""Ctrl-C ends all threads and processes, at whatever step of the main thread it comes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from provision.core import interruption
from provision.core.interruption import (
    check_interrupted,
    deferred,
    in_threads,
    interrupt,
    results,
)

# A command whose verb is replaced; `signal_unseen` interrupts no system call of the main thread.
COMMAND = """
import itertools, json, signal, sys, threading
from pathlib import Path
from provision.cli import main
from provision.core.interruption import in_threads
from provision.core.process import run
from provision.core.tree_hashing import sha256_below

def signal_unseen():
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

def sleep(number, *, first=lambda: None):
    print("started", flush=True)
    if number == 0:
        first()
    run(["sleep", "60"])

def dispatch(arguments):
    {body}

# Shells let jobs in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
main._dispatch = dispatch
sys.exit(main.main(["targets"]))
"""


def started(body: str) -> subprocess.Popen[str]:
    code = COMMAND.replace("{body}", body)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_workers(pid: int) -> None:
    """Wait until a command has started processes, 2 s where the system does not say it."""
    for _ in range(100):
        time.sleep(0.02)
        if any(
            file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")
        ):
            time.sleep(0.5)  # for all to read their names
            return


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "_interrupted", False)


@pytest.mark.machine
@pytest.mark.parametrize(
    "body",
    [
        "in_threads(lambda n: sleep(n, first=signal_unseen), range(50), 2)",
        "threading.Thread(target=signal_unseen, daemon=True).start(); sleep(1)",
        "threading.Timer(0.5, signal_unseen).start(); sleep(1)",
        # While the main thread fills the pool: every item is a step of it.
        "in_threads(sleep, (n if n < 9 else signal.raise_signal(2) or n for n in range(50)), 2)",
    ],
)
def test_ctrl_c_ends_a_command_that_waits_for_processes(body: str) -> None:
    with started(body) as command:
        command.communicate(timeout=30)
    assert command.returncode == 130


@pytest.mark.machine
def test_ctrl_c_from_outside() -> None:
    with started("in_threads(sleep, range(50), 2)") as command:
        assert command.stdout
        command.stdout.readline()
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 130


@pytest.mark.machine
@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_to_the_group_ends_the_hashing_of_many_files(
    name: str, tmp_path: Path
) -> None:
    """`timeout` and a terminal send it to the workers, too."""
    sizes = {str(number): 4 << 30 for number in range(32)}  # minutes
    for file, size in sizes.items():
        with (tmp_path / file).open("wb") as sparse:
            sparse.truncate(size)
    # As many names as those of an environment, which no pipe takes at once.
    for number in range(4000):
        file = f"{number:0100}"
        (tmp_path / file).touch()
        sizes[file] = 0
    (tmp_path / "sizes.json").write_text(json.dumps(sizes))
    body = (
        f"folder = Path({str(tmp_path)!r}); print('started', flush=True); "
        "sha256_below(folder, json.loads((folder / 'sizes.json').read_text()))"
    )
    with started(body) as command:
        assert command.stdout
        command.stdout.readline()
        wait_for_workers(command.pid)
        try:
            os.killpg(command.pid, signal.Signals[name])
            assert command.wait(30) == 130
        finally:
            command.kill()


def test_the_first_waits_for_a_check_and_the_second_does_not() -> None:
    reached: list[bool] = []
    assert interrupt(), "nothing is deferred"
    interruption._interrupted = False
    with pytest.raises(KeyboardInterrupt), deferred():
        reached.extend([interrupt(), interrupt()])
    assert reached == [False, True]


def test_a_thread_defers_nothing_and_looks_itself() -> None:
    def work(_: int) -> bool:
        with deferred():
            return interruption._deferred == 1  # the main thread's own

    assert in_threads(work, range(3)) == [True] * 3
    interrupt()
    with pytest.raises(KeyboardInterrupt), ThreadPoolExecutor(1) as pool:
        pool.submit(check_interrupted).result()


def test_an_error_cancels_what_has_not_begun() -> None:
    begun, gate = itertools.count(), threading.Event()

    def work(number: int) -> None:
        next(begun)
        if number == 0:
            raise OSError(os.strerror(5))
        gate.wait(30)

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(OSError, match="Input"):
            list(results(pool, work, range(20)))
        gate.set()
    assert next(begun) <= 2


@pytest.mark.machine
@pytest.mark.parametrize(
    "start",
    [
        "import runpy; runpy.run_module('provision', run_name='__main__')",
        "from provision.cli.isolated import main; raise SystemExit(main())",
    ],
)
def test_ctrl_c_before_there_is_a_command_leaves_no_traceback(start: str) -> None:
    code = f"""
import importlib.abc, signal, sys

class Early(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "provision.cli.main":
            signal.raise_signal(signal.SIGINT)

# Shells let jobs in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Early())
sys.argv = ["provision", "targets"]
{start}
"""
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
