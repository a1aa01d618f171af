"""Children read nothing from a standard handle, and end with their parent however that ends.

These tests import nothing but the suite: `tests/wine` runs them in a built environment as well.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from smoke.engine import child_process

if sys.platform == "win32":
    import _winapi

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.machine
# A virtual environment's python.exe of Windows is a launcher with a job of its own, which ends more
# than the interpreter alone would, as it lies in a conda prefix.
PYTHONS = [sys._base_executable, *([sys.executable] if sys.platform == "win32" else [])]
RELATIVE = Path(__file__).with_name("relative.py")
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has jobs only")
NOT_MACOS = pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS has no signal of a pipe"
)
SYNCHRONIZE = 0x100000  # winnt.h: the right to wait for a process
SECONDS = 60.0  # until a process counts as not started, or as not ended


class Family:
    """The processes that a test started, each at the other end of a connection.

    A process ends with its connection; on Windows its handle is asked: Wine's server may keep the
    connection of a process that was ended while it wrote.
    """

    def __init__(self, server: socket.socket, python: str) -> None:
        self._server = server
        self.python = python
        self.port = str(server.getsockname()[1])
        self.pids: dict[str, int] = {}
        self._connections: dict[str, socket.socket] = {}
        self._handles: dict[str, int] = {}

    def wait_for(self, *names: str) -> None:
        """Wait until these and no others have said their names."""
        while set(self.pids) < set(names):
            connection, _ = self._server.accept()
            connection.settimeout(SECONDS)
            with connection.makefile() as stream:
                name, pid = stream.readline().split()
            self.pids[name], self._connections[name] = int(pid), connection
            if sys.platform == "win32":
                self._handles[name] = _winapi.OpenProcess(SYNCHRONIZE, False, int(pid))
        assert set(self.pids) == set(names)

    def kill(self, name: str) -> None:
        """End one of them without a last word: SIGKILL, or TerminateProcess on Windows."""
        os.kill(
            self.pids[name],
            signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL,
        )

    def survivors(self) -> list[str]:
        """Return who is still there although every one of them should have ended."""
        return sorted(name for name in self.pids if not self.has_ended(name))

    def has_ended(self, name: str) -> bool:
        """Wait for the end of one of them; return whether it came."""
        if sys.platform == "win32":
            ended = _winapi.WaitForSingleObject(
                self._handles[name], int(SECONDS * 1000)
            )
            return ended == _winapi.WAIT_OBJECT_0
        try:
            return self._connections[name].recv(1) == b""
        except TimeoutError:
            return False

    def close(self) -> None:
        for name in self.survivors():
            self.kill(name)
        for connection in self._connections.values():
            connection.close()
        if sys.platform == "win32":
            for handle in self._handles.values():
                _winapi.CloseHandle(handle)


@pytest.fixture(params=PYTHONS, ids=["interpreter", "launcher"][: len(PYTHONS)])
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def family(python: str) -> Iterator[Family]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        found = Family(server, python)
        yield found
        found.close()


@pytest.fixture
def worker(family: Family) -> Iterator[subprocess.Popen[bytes]]:
    with Path(os.devnull).open("wb") as output:
        child = child_process.start(argv(family, "worker"), output, leader=True)
    family.wait_for("worker", "rank", "stranger")
    yield child
    child_process.stop_group(child)


def argv(family: Family, *names: str) -> list[str]:
    return [family.python, "-I", str(RELATIVE), family.port, *names]


@pytest.mark.parametrize(
    ("worker", "children"),
    [
        ("worker", ("rank", "stranger")),
        ("late", ()),
        pytest.param("portable", ("rank", "stranger"), marks=POSIX),
        pytest.param("stuck", ("stranger",), marks=NOT_MACOS),
    ],
)
def test_a_worker_ends_with_its_supervisor(
    family: Family, worker: str, children: tuple[str, ...]
) -> None:
    supervisor = subprocess.Popen(argv(family, "supervisor", worker))
    family.wait_for("supervisor", worker, *children)
    family.kill("supervisor")
    supervisor.wait(SECONDS)
    assert family.survivors() == []


def test_a_stopped_worker_leaves_nothing_behind(
    family: Family, worker: subprocess.Popen[bytes]
) -> None:
    child_process.stop_group(worker)
    assert family.survivors() == []


@pytest.mark.usefixtures("worker")
def test_a_rank_ends_with_its_killed_worker(family: Family) -> None:
    family.kill("worker")
    assert family.has_ended("rank")


def test_no_read_of_standard_input_can_wait(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(len(os.read(0, 1)))"
    with (tmp_path / "log").open("wb") as log:
        child = child_process.start(
            [sys.executable, "-I", "-c", code], log, leader=True
        )
        try:
            assert child.wait(SECONDS) == 0
        finally:
            child_process.stop_group(child)


@pytest.mark.parametrize("code", [0, 7])
def test_who_owned_descendants_keeps_its_own_exit_code(python: str, code: int) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(RELATIVE.parents[2])!r})\n"
        "from smoke.engine import lifetime; lifetime.own_descendants()\n"
        f"sys.exit({code})"
    )
    assert subprocess.run([python, "-c", program], check=False).returncode == code
