"""The committed locks: each one fresh, hashed, free of hosts, and for its platform only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from provision.artifacts.pip_config import read_pip_config
from provision.artifacts.resumable_download import download
from provision.catalog import simple_index
from provision.commands import lock
from provision.core import network
from provision.core.hashing import sha256_file
from provision.core.process import run
from provision.core.project import Project
from provision.lockfile.pip import PIP_LAYER, read_lock
from provision.lockfile.tags import best_wheel
from provision.resolver.resolver import Resolver
from provision.spec.reader import load_target, target_names

PROJECT = Project(Path(__file__).parents[2])
NAMES = target_names(PROJECT.specs)
each = pytest.mark.parametrize("name", NAMES)


@each
def test_is_fresh(name: str) -> None:
    target = load_target(PROJECT.specs, name)
    assert (
        lock.staleness(target, PROJECT.catalog, read_lock(PROJECT.lock(name))) is None
    )


@each
def test_names_no_host(name: str) -> None:
    text = (PROJECT.lock(name) / PIP_LAYER).read_text(encoding="utf-8")
    assert not re.search(r"://|127\.0\.0\.1|\.(com|org|io)\b", text)


@each
def test_holds_a_file_of_its_platform_for_each_distribution(name: str) -> None:
    target = load_target(PROJECT.specs, name)
    for artifact in read_lock(PROJECT.lock(name)).artifacts:
        assert best_wheel([artifact.filename], target.platform, target.python), (
            artifact.filename
        )


@each
def test_takes_assigned_names_from_their_index_only(name: str) -> None:
    target = load_target(PROJECT.specs, name)
    for artifact in read_lock(PROJECT.lock(name)).artifacts:
        assert artifact.index == target.pip.index_of(artifact.name)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("cpu-")])
def test_a_cpu_lock_holds_no_gpu_library(name: str) -> None:
    locked = read_lock(PROJECT.lock(name)).versions
    assert not [
        n for n in locked if n.startswith(("nvidia-", "triton", "intel-sycl", "dpcpp"))
    ]


@each
def test_every_conda_package_is_hashed_and_of_its_platform(name: str) -> None:
    target = load_target(PROJECT.specs, name)
    conda = read_lock(PROJECT.lock(name)).conda
    assert (conda is None) == (target.conda is None)
    if conda:
        packages = conda.split("\n- name: ")[1:]
        assert len(packages) > 10
        for package in packages:
            assert re.search(r"sha256: [0-9a-f]{64}", package)
            assert re.search(rf"/({target.platform}|noarch)/", package)


@pytest.mark.network
def test_a_lock_is_compiled_again_to_the_same_bytes_in_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    targets = [
        load_target(PROJECT.specs, name) for name in ("cpu-linux", "arc-windows")
    ]
    resolver = Resolver(PROJECT.catalog, read_pip_config(), run, Silent())
    for result in lock.lock(targets, PROJECT, resolver, write=False):
        assert result.error is None
        assert not result.differs, result.changes


class Silent:
    def step(self, text: str, *_: object) -> None:
        pass

    def note(self, text: str) -> None:
        pass


SAMPLES = ("arc-windows", "cpu-windows", "cpu-linux", "cuda-linux")
BUDGET = 300_000_000  # bytes to download; of the larger files only the size is asked


@pytest.mark.network
def test_what_is_locked_can_be_had(tmp_path: Path) -> None:
    """The files of two Windows and two Linux locks from the default index, by hash."""
    wanted = {
        artifact.sha256: artifact
        for name in SAMPLES
        for artifact in read_lock(PROJECT.lock(name)).artifacts
        if artifact.index == "default"
    }
    urls = _addresses(sorted({artifact.name for artifact in wanted.values()}))
    sized = network.content_lengths(
        [urls[artifact.filename] for artifact in wanted.values()]
    )
    spent = 0
    with network.session() as session:
        for artifact in sorted(
            wanted.values(), key=lambda artifact: artifact.size or 0
        ):
            assert sized[urls[artifact.filename]] == artifact.size, artifact.filename
            spent += artifact.size or 0
            if spent < BUDGET:
                url = urls[artifact.filename]
                path = download(session, url, tmp_path, artifact.filename, Silent())
                assert sha256_file(path) == artifact.sha256, artifact.filename
                path.unlink()
    assert len(wanted) > 80


def _addresses(names: list[str]) -> dict[str, str]:
    index = read_pip_config().index_url or PYPI_SIMPLE_ENDPOINT
    with network.session() as session:
        pages = [simple_index.list_files(session, index, name) for name in names]
    return {package.filename: package.url for page in pages for package in page}
