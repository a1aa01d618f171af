"""The committed locks: each one fresh, hashed, free of hosts, and for its platform only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provision import lock, lockfile, spec
from provision.platforms import best_wheel
from provision.project import Project

PROJECT = Project(Path(__file__).parents[1])
NAMES = spec.names(PROJECT.specs)
each = pytest.mark.parametrize("name", NAMES)


@each
def test_is_fresh(name: str) -> None:
    target = spec.load_named(PROJECT.specs, name)
    assert lock.staleness(target, PROJECT.catalog, lockfile.read(PROJECT.lock(name))) is None


@each
def test_names_no_host(name: str) -> None:
    text = (PROJECT.lock(name) / lockfile.PIP_LAYER).read_text(encoding="utf-8")
    assert not re.search(r"://|127\.0\.0\.1|\.(com|org|io)\b", text)


@each
def test_holds_a_file_of_its_platform_for_each_distribution(name: str) -> None:
    target = spec.load_named(PROJECT.specs, name)
    for artifact in lockfile.read(PROJECT.lock(name)).artifacts:
        assert best_wheel([artifact.filename], target.platform, target.python), artifact.filename


@each
def test_holds_nothing_forbidden(name: str) -> None:
    target = spec.load_named(PROJECT.specs, name)
    locked = lockfile.read(PROJECT.lock(name)).versions
    assert not {item.name for item in target.pip.forbid} & locked.keys()


@each
def test_takes_assigned_names_from_their_index_only(name: str) -> None:
    target = spec.load_named(PROJECT.specs, name)
    for artifact in lockfile.read(PROJECT.lock(name)).artifacts:
        assert artifact.index == target.pip.index_of(artifact.name)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("cpu-")])
def test_a_cpu_lock_holds_no_gpu_library(name: str) -> None:
    locked = lockfile.read(PROJECT.lock(name)).versions
    assert not [n for n in locked if n.startswith(("nvidia-", "triton", "intel-sycl", "dpcpp"))]
