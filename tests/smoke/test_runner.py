"""The suite brings its own pytest: the environment may have none, or one that is broken."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands.suite import runner_folder
from provision.core.process import clean_environment, run
from provision.image.context import copy_runner
from tests.smoke.conftest import SUITE, linked_environment

if TYPE_CHECKING:
    from pathlib import Path

    from provision.core.process import Completed

pytestmark = pytest.mark.machine
RUNNER = ("pytest", "_pytest", "pluggy", "iniconfig", "py.py", "pygments")
# Packages of the toolkit, which the environment has not.
OTHERS = ("pydantic", "rattler", "pypi_simple", "tomlkit")
CHECKS = '''
import importlib.util
import sys

from smoke.engine import child_process
from smoke.engine.check import check


@check("extra.runner", stands_for="a proof by another pytest than ours")
def test_runner() -> None:
    """Pytest is the suite's; nothing else of its folder can be imported."""
    import packaging
    import pluggy
    import pytest

    for module in (pytest, pluggy):
        assert module.__file__.startswith(RUNNER), module.__file__
    assert packaging.__file__.startswith(sys.prefix), packaging.__file__
    for name in OTHERS:
        assert importlib.util.find_spec(name) is None, name


@check("extra.child", stands_for="an import that works under the suite only")
def test_child() -> None:
    """A process that imports a requirement has the environment's pytest, or none."""
    answer = child_process.call("smoke.engine.requirements:import_modules", modules=["pytest"])
    assert answer.finding, "pytest was importable"
    assert answer.finding.symptom == SYMPTOM, answer.finding
'''
CHECKED = (
    "identity.versions",
    "device.ready",
    "device.matmul",
    "offload.tied",
    "selection.order",
)
BROKEN = "RuntimeError: this pytest is broken"


@pytest.fixture(scope="module")
def bare(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a real environment without pytest."""
    return linked_environment(python, tmp_path_factory.mktemp("bare") / "env", RUNNER)


def check(
    python: Path, sound: Path, folder: Path, *words: object, suite: Path = SUITE
) -> tuple[Completed, Any]:
    data = json.loads(sound.read_text(encoding="utf-8"))
    for name in ("pytest", "pluggy", "iniconfig", "pygments"):
        data["packages"].pop(name, None)
    expect, report = folder / "expect.json", folder / "report.json"
    expect.write_text(json.dumps(data), encoding="utf-8")
    argv = [python, "-I", suite, expect, report, *map(str, words)]
    done = run(argv, env=clean_environment(), cwd=folder, timeout=400)
    return done, json.loads(report.read_text(encoding="utf-8"))


def test_without_a_pytest_nothing_is_green(
    bare: Path, sound: Path, tmp_path: Path
) -> None:
    """The false green: one check passed, and the environment was proven."""
    done, report = check(bare, sound, tmp_path)
    assert done.returncode == 3
    assert "there is no pytest" in done.stderr
    assert "--runner" in done.stderr
    assert [each["id"] for each in report["checks"]] == ["identity.import"]
    owed = {entry["id"] for entry in report["not_run"] if entry["owed"]}
    assert {
        "identity.requirements",
        "device.ready",
        "device.matmul",
        "offload.tied",
    } <= owed


def test_with_the_suites_own_it_is_checked_like_any_other(
    bare: Path, sound: Path, tmp_path: Path
) -> None:
    """As in an image: with the part of the toolkit's packages that is copied there."""
    copy_runner(runner_folder(), tmp_path / "runner")
    # One of each kind; each build of cpu-linux runs them all with the toolkit's pytest.
    only = [word for name in CHECKED for word in ("--only", name)]
    done, report = check(bare, sound, tmp_path, "--runner", tmp_path / "runner", *only)
    assert done.returncode == 0, done.stdout
    assert {each["id"] for each in report["checks"]} == {"identity.import", *CHECKED}
    assert not [entry for entry in report["not_run"] if entry["owed"]]


def test_nothing_but_the_runner_is_replaced(
    bare: Path, sound: Path, tmp_path: Path
) -> None:
    """The environment's own pytest is broken, and its children see that one."""
    shutil.copytree(SUITE.parent, tmp_path / "smoke")
    assert all((runner_folder() / name).is_dir() for name in OTHERS)
    facts = (
        f"RUNNER, OTHERS, SYMPTOM = {str(runner_folder())!r}, {OTHERS!r}, {BROKEN!r}\n"
    )
    (tmp_path / "smoke" / "checks" / "test_extra.py").write_text(facts + CHECKS)
    (site,) = bare.parent.parent.glob("lib/python3.*/site-packages")
    (site / "pytest.py").write_text("raise RuntimeError('this pytest is broken')\n")
    words = ("--only", "extra", "--runner", runner_folder())
    suite = tmp_path / "smoke" / "run.py"
    done, report = check(bare, sound, tmp_path, *words, suite=suite)
    assert done.returncode == 0, report
