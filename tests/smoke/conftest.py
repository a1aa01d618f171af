"""A built environment to run the suite in, and what it has to find there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.process import clean_environment, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.core.process import Completed

HARNESS = Path(__file__).with_name("harness.py")
SUITE = Path(__file__).parents[2] / "smoke" / "run.py"


@pytest.fixture(scope="session")
def harness(python: Path) -> Callable[..., None]:
    """Run the harness inside of the environment; see its module for what it can do."""

    def start(*arguments: object, ends_with: int = 0) -> None:
        words = [python, "-I", HARNESS, *map(str, arguments)]
        done = run(words, env=clean_environment(), timeout=900)
        assert done.returncode == ends_with, done.stderr[-3000:]

    return start


@pytest.fixture(scope="session")
def sound(harness: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An expectation that the environment meets."""
    path = tmp_path_factory.mktemp("smoke") / "expect.json"
    harness("--describe", path)
    return path


@pytest.fixture
def suite(python: Path, sound: Path, tmp_path: Path) -> Callable[..., tuple[Completed, Any]]:
    """Run the suite as the toolkit does; return its process and its report, None without one."""

    def start(*arguments: object, **changes: object) -> tuple[Completed, Any]:
        expect, report = tmp_path / "expect.json", tmp_path / "report.json"
        data = json.loads(sound.read_text(encoding="utf-8"))
        expect.write_text(json.dumps(data | changes), encoding="utf-8")
        words = [python, "-I", SUITE, expect, report, *map(str, arguments)]
        done = run(words, env=clean_environment(), cwd=tmp_path, timeout=400)
        return done, json.loads(report.read_text(encoding="utf-8")) if report.exists() else None

    return start
