"""A built environment to run the suite in, and what it has to find there."""

from __future__ import annotations

import json
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage
import pytest

from provision.catalog.devices import read_devices
from provision.commands.suite import with_causes
from provision.core.process import clean_environment, environment_python, run
from tests.small import CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.core.process import Completed

HARNESS = Path(__file__).with_name("harness.py")
SUITE = Path(__file__).parents[2] / "smoke" / "run.py"


def failures(checks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the codes that a user's report has, which the toolkit completes."""
    return [
        (check["id"], check["finding"]["code"])
        for check in with_causes(checks)
        if check["finding"]
    ]


@pytest.fixture(scope="session")
def harness(python: Path) -> Callable[..., None]:
    """Run the harness inside of the environment; see its module for what it can do."""

    # One thread: its tensors are small, and other tests run on the other cores.
    variables = {"OMP_NUM_THREADS": "1"}
    if coverage.Coverage.current():
        variables["SMOKE_COVERAGE"] = str(Path(coverage.__file__).parents[1])

    def start(*arguments: object, ends_with: int = 0) -> None:
        words = [python, "-I", HARNESS, *map(str, arguments)]
        done = run(words, env=clean_environment(extra=variables), timeout=3000)
        assert done.returncode == ends_with, done.stderr[-3000:]

    return start


@pytest.fixture(scope="session")
def sound(
    harness: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An expectation that the environment meets."""
    path = tmp_path_factory.mktemp("smoke") / "expect.json"
    harness("--describe", path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["intel_devices"] = read_devices(CATALOG).intel_families()
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@pytest.fixture
def suite(
    python: Path, sound: Path, tmp_path: Path
) -> Callable[..., tuple[Completed, Any]]:
    """Run the suite as the toolkit does; return its process and its report, None without one."""

    # One thread, as above: on busy cores threads that wait for each other take up to five times
    # as long.
    env = clean_environment(extra={"OMP_NUM_THREADS": "1"})

    def start(*arguments: object, **changes: object) -> tuple[Completed, Any]:
        expect, report = tmp_path / "expect.json", tmp_path / "report.json"
        data = json.loads(sound.read_text(encoding="utf-8"))
        expect.write_text(json.dumps(data | changes), encoding="utf-8")
        words = [python, "-I", SUITE, expect, report, *map(str, arguments)]
        done = run(words, env=env, cwd=tmp_path, timeout=400)
        return done, json.loads(
            report.read_text(encoding="utf-8")
        ) if report.exists() else None

    return start


def linked_environment(
    python: Path, home: Path, leave_out: tuple[str, ...] = ()
) -> Path:
    """Make a real environment with links to the modules of another; return its Python.

    Args:
        python: Of the other environment.
        home: Where it goes.
        leave_out: Modules and distributions that it shall not have.
    """
    venv.EnvBuilder(symlinks=True).create(home)
    for link in (home / "bin").glob("python*"):
        link.unlink()
        link.symlink_to(python.resolve())
    other = python.parent.parent
    (home / "pyvenv.cfg").write_text((other / "pyvenv.cfg").read_text(encoding="utf-8"))
    (source,) = other.glob("lib/python3.*/site-packages")
    site = home / source.relative_to(other)
    site.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        if entry.name.partition("-")[0] not in leave_out:
            (site / entry.name).symlink_to(entry)
    return environment_python(home)
