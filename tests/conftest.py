"""The guard: a unit test that starts a process or opens a connection fails, and says so.

And what tests of several folders share: a lab, and the environment that the session has built.
"""

from __future__ import annotations

import functools
import gc
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

from provision.core.process import environment_python
from provision.environment import interpreter
from tests.lab import keep_lab, open_lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import KeptLab, Lab

# pytest-xdist's processes have started their coverage by now. Without this, each command that a
# test starts would do so too: slower, and with modules and files that the guards would count.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)

# The servers of tests are on this machine: one that does not answer will not do so later. uv waits
# for seconds before it asks again, and so does the toolkit.
RETRIES = "UV_HTTP_RETRIES"
os.environ[RETRIES] = "0"

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("any machine", deadline=None, max_examples=50)
hypothesis.settings.load_profile("any machine")

# Files whose builds share a fixture, and processes with torch, which is compiled meanwhile.
LONGEST = (
    "tests/test_action.py",
    "tests/ui/test_live.py",
    "tests/smoke/",
    "tests/commands/",
    "tests/cli/",
    "tests/doctor/test_failures.py",
    "tests/installer/",
    "tests/projects/",
    "tests/fleet/",
    "tests/test_",  # installations, documents
    "tests/resolver/",
    "tests/doctor/",
)
REAL = (
    "machine",
    "faults",
    "network",
    "docker",
    "wine",
    "browser",
    "fleet",
    "release",
)


NO_BYTECODE = sys.dont_write_bytecode


def pytest_collectstart() -> None:
    # smoke/run.py forbids bytecode when it is imported: the rewritten asserts of all files after it
    # would be made anew by each process.
    sys.dont_write_bytecode = NO_BYTECODE
    gc.disable()  # until all tests are collected: little of what that makes is garbage


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name.startswith("test_attack_"):
            item.add_marker("attack")
    # What takes longest comes first, so that the cores end together.
    items.sort(key=lambda item: [part not in item.path.as_posix() for part in LONGEST])


def pytest_collection_finish() -> None:
    # Modules and collected tests stay to the end. Each search for garbage went through all of them,
    # a seventh of the processor time of most files.
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    # The processes of xdist compare the ids, and compressed bytes can hold the time.
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if any(map(request.node.get_closest_marker, ("network", "faults"))):
        monkeypatch.delenv(RETRIES)
    if not any(request.node.get_closest_marker(name) for name in REAL):

        def refuse(*_args: object, **_kwargs: object) -> NoReturn:
            pytest.fail(
                f"a unit test reached the machine; mark it with one of {', '.join(REAL)}"
            )

        monkeypatch.setattr(subprocess, "Popen", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """Leave out fsync in this process: it counts where the power fails, which no test can make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _digest_of_this_python_once() -> Iterator[None]:
    """Read the thousand files of this Python once, and not for each environment of it."""
    digest, own = interpreter._digest, Path(sys.base_prefix).resolve()
    once = functools.cache(digest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            interpreter,
            "_digest",
            lambda base, library: (once if base == own else digest)(base, library),
        )
        yield


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_lab(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def kept_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptLab]:
    with keep_lab(tmp_path_factory.mktemp("kept")) as kept:
        yield kept


@pytest.fixture
def ready(kept_lab: KeptLab) -> Iterator[Lab]:
    """A lab after its first build, which all tests share: what they change is put back."""
    with kept_lab.again() as lab:
        yield lab


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python of the environment with torch that PROVISION_TEST_ENV names."""
    prefix = os.environ.get("PROVISION_TEST_ENV")
    if prefix and environment_python(Path(prefix)).exists():
        return environment_python(Path(prefix))
    remedy = f"PROVISION_TEST_ENV={prefix or ''} is no environment; `nox -s tests` builds cpu-linux"
    if os.environ.get("CI") == "true":
        pytest.fail(remedy)
    pytest.skip(remedy)
