"""Checks of what a check may do, and of the pytest that runs it: `test_suite` adds them to a copy."""

import importlib.util
import os
import sys
from typing import Any

import pytest

from smoke.engine import child_process
from smoke.engine.check import check
from smoke.engine.finding import fail

# Packages of the toolkit, which the environment has not.
OTHERS = ("pydantic", "rattler", "pypi_simple", "tomlkit")


def absent(device: Any) -> str:
    """Return what an imagined device lacks."""
    return f"{device} has no wings"


def broken(device: Any) -> str:
    """Break the probe itself."""
    raise RuntimeError(f"{device} can't be probed")


@check("extra.excused", stands_for="s", needs=(absent,))
def test_excused(device: Any) -> None:
    """It needs what the device lacks."""
    assert not device


@check("extra.not_excused", stands_for="s", needs=(broken,))
def test_not_excused(device: Any) -> None:
    """A broken probe is no excuse."""
    assert not device


@check("extra.slow", stands_for="s")
def test_slow() -> None:
    """It is slow."""
    fail("slow", "slow", cause="c", remedy="r", evidence=["e"])


@check("extra.skips", stands_for="s")
def test_skips() -> None:
    """A check cannot excuse itself."""
    pytest.skip("not today")


@check("extra.runner", stands_for="a proof by another pytest than ours")
def test_runner() -> None:
    """Pytest is the suite's; nothing else of its folder can be imported."""
    import packaging
    import pluggy

    for module in (pytest, pluggy):
        assert module.__file__
        assert module.__file__.startswith(os.environ["EXTRA_RUNNER"]), module
    assert packaging.__file__
    assert packaging.__file__.startswith(sys.prefix), packaging
    for name in OTHERS:
        assert importlib.util.find_spec(name) is None, name


@check("extra.child", stands_for="an import that works under the suite only")
def test_child() -> None:
    """A process that imports a requirement has the environment's pytest, or none."""
    answer = child_process.call(
        "smoke.engine.requirements:import_modules", modules=["pytest"]
    )
    assert answer.finding, "pytest was importable"
    assert answer.finding.symptom == "RuntimeError: this pytest is broken"
