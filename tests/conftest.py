"""The guard: a unit test that starts a process or opens a connection fails, and says so."""

from __future__ import annotations

import socket
import subprocess
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.lab import Lab, Silent
from tests.small import make_project, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REAL = ("machine", "network", "docker", "wine")


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(request.node.get_closest_marker(name) for name in REAL):

        def refuse(*_args: object, **_kwargs: object) -> NoReturn:
            pytest.fail(f"a unit test reached the machine; mark it with one of {', '.join(REAL)}")

        monkeypatch.setattr(subprocess, "Popen", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with serve(tmp_path / "index") as index:
        made = Lab(make_project(tmp_path / "project", index), index, [], Silent())
        made.relock(made.wheel("alpha"), made.wheel("beta", index="vendor"))
        yield made
