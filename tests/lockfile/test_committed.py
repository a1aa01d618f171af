"""The committed locks: each one fresh, hashed, free of hosts, and for its platform only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provision.artifacts.pip_config import read_pip_config
from provision.commands import freshness, lock
from provision.core.process import run
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import PIP_LAYER, read_lock
from provision.lockfile.tags import best_wheel
from provision.resolver.resolver import Resolver
from provision.spec.reader import load_target
from tests.checkout import LOCKABLE, PROJECT
from tests.lab import Silent

GPU = ("nvidia-", "triton", "intel-sycl", "dpcpp")


def test_names_no_host() -> None:
    for name in LOCKABLE:
        text = (PROJECT.lock(name) / PIP_LAYER).read_text(encoding="utf-8")
        assert not re.search(r"://|127\.0\.0\.1|\.(com|org|io)\b", text), name


@pytest.mark.parametrize("name", LOCKABLE)
def test_is_fresh_and_has_files_of_its_platform_from_the_assigned_indexes(
    name: str,
) -> None:
    locked, target = read_lock(PROJECT.lock(name)), load_target(PROJECT.specs, name)
    assert freshness.staleness(target, PROJECT.catalog, locked) is None
    for wheel in locked.artifacts:
        assert best_wheel([wheel.filename], *target.machine)
        assert wheel.index == target.pip.index_of(wheel.name)
        assert not (name.startswith("cpu-") and wheel.name.startswith(GPU))
    assert (locked.conda is None) == (target.conda is None)
    for package in conda_packages(locked):
        assert package.subdir in {target.platform, "noarch"}


@pytest.mark.network
@pytest.mark.parametrize(
    "name", ["arc-windows", pytest.param("cpu-linux", marks=pytest.mark.slow)]
)
def test_a_lock_is_compiled_again_to_the_same_bytes_in_another_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("conda_lock", reason="the group conda is not installed")
    for key, value in {
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
    }.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    target = load_target(PROJECT.specs, name)
    resolver = Resolver(PROJECT.catalog, read_pip_config(), run, Silent())
    (result,) = lock.lock([target], PROJECT, resolver, write=False)
    assert result.error is None
    assert not result.differs, result.changes
