"""The guard: a unit test that starts a process or opens a connection fails, and says so."""

from __future__ import annotations

import socket
import subprocess
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.lab import open_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab import Lab

REAL = ("machine", "faults", "network", "docker", "wine")


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not any(request.node.get_closest_marker(name) for name in REAL):

        def refuse(*_args: object, **_kwargs: object) -> NoReturn:
            pytest.fail(f"a unit test reached the machine; mark it with one of {', '.join(REAL)}")

        monkeypatch.setattr(subprocess, "Popen", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_lab(tmp_path) as made:
        yield made
