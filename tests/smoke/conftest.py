"""A built environment to run the suite in, and what it has to find there."""

from __future__ import annotations

import json
import os
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage
import pytest

from provision.catalog.devices import read_devices
from provision.commands.suite import with_causes
from provision.core.process import clean_environment, environment_python, run
from tests.small import CATALOG
from tests.smoke import profiles
from tests.smoke.faults import left_out

if TYPE_CHECKING:
    from provision.core.process import Completed

CORES = len(os.sched_getaffinity(0))
HARNESS = Path(__file__).with_name("harness.py")
# Its tensors are small, and other tests run on the other cores: there, threads that wait for each
# other take up to five times as long.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
SUITE = Path(__file__).parents[2] / "smoke" / "run.py"

# A healthy device may be unknown to the lists, its driver too; the pretend one is a CPU's speed.
WARNINGS = {"device-unknown", "driver-unknown", "unknown-warning", "slow"}


def failures(checks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the codes that a user's report has, which the toolkit completes."""
    found = []
    for check in with_causes(checks):
        if check["finding"]:
            found.append((check["id"], check["finding"]["code"]))
    return found


def ids(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["id"] for entry in entries}


def prove(world: dict[str, Any], reported: dict[str, Any]) -> None:
    """Fail unless the device is proven: nothing failed, and all that it can run was run."""
    results = reported["results"]
    failed = [result for result in results if result["outcome"] == "failed"]
    assert failures(failed) == [], failed
    for result in results:
        if result["finding"]:
            assert result["finding"]["code"] in WARNINGS
    assert len(results) > 20
    not_required = profiles.not_required(world)
    left = left_out(world)
    excused = profiles.lacking(world) - not_required - left
    assert ids(reported["excused"]) == excused
    not_run = reported["not_run"]
    assert ids(not_run) == excused | not_required | left, not_run
    for entry in not_run:
        assert entry["reason"]
        assert not entry["required"]


@pytest.fixture(scope="session")
def harness(python: Path) -> Callable[..., None]:
    """Run the harness inside of the environment; see its module for what it can do."""

    variables = dict(ONE_THREAD)
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


Job = dict[str, Any]
Results = dict[str, dict[str, Any]]
Play = Callable[..., Results]


@pytest.fixture(scope="session")
def base(sound: Path) -> dict[str, Any]:
    """What `sound` expects."""
    expect: dict[str, Any] = json.loads(sound.read_text(encoding="utf-8"))
    return expect


def _order(job: Job) -> int:
    kinds = ["cpu", "pretend", "stand-ins"]
    return kinds.index(job["world"]) if job["world"] in kinds else len(kinds)


@pytest.fixture(scope="session")
def play(
    harness: Callable[..., None],
    base: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Play:
    """Run jobs; return what the checks of each reported, by its name.

    A job is a name, a world and the names of faults. The world is ``cpu``, ``pretend`` or a device
    of `profiles.world`, and only the checks of the faults run; on a device without any, all. No job
    of the CPU beside others may compute gradients: torch counts the devices with the first one.
    """

    def start(jobs: list[Job], processes: int = 1) -> Results:
        folder = tmp_path_factory.mktemp("jobs")
        # A process that has moved from the CPU to the pretend device, or on to a world, stays.
        ordered = sorted(jobs, key=_order)
        file = folder / "jobs.json"
        text = json.dumps([job | {"expect": base} for job in ordered])
        file.write_text(text, encoding="utf-8")

        def run(part: int) -> Results:
            out = folder / f"{part}.json"
            harness("--play", file, out)
            results: Results = json.loads(out.read_text(encoding="utf-8"))
            return results

        results: Results = {}
        with ThreadPoolExecutor(processes) as pool:
            for part in pool.map(run, range(processes)):
                results |= part
        assert results.keys() == {job["name"] for job in jobs}
        return results

    return start


Suite = Callable[..., "tuple[Completed, Any]"]


@pytest.fixture
def suite(python: Path, base: dict[str, Any], tmp_path: Path) -> Suite:
    """Run the suite as the toolkit does; return its process and its report, None without one."""
    own = python

    def start(
        *arguments: object,
        python: Path = own,
        program: Path = SUITE,
        variables: dict[str, str] | None = None,
        **changes: object,
    ) -> tuple[Completed, Any]:
        expect, report = tmp_path / "expect.json", tmp_path / "report.json"
        expect.write_text(json.dumps(base | changes), encoding="utf-8")
        words = [python, "-I", program, expect, report, *map(str, arguments)]
        env = clean_environment(extra=ONE_THREAD | (variables or {}))
        done = run(words, env=env, cwd=tmp_path, timeout=400)
        if not report.exists():
            return done, None
        return done, json.loads(report.read_text(encoding="utf-8"))

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
        # Bytecode of what a test writes beside the links would get into the other environment.
        if entry.name.partition("-")[0] not in {*leave_out, "__pycache__"}:
            (site / entry.name).symlink_to(entry)
    return environment_python(home)
