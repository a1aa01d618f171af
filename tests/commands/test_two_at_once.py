"""Two of anything at once wait for each other, and say so.

Threads stand for processes: locks are on open files, which the threads do not share.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pytest

from provision.artifacts.parallel_fetch import fetch_all, wanted_wheel
from provision.commands import lock
from provision.image import docker
from tests import small
from tests.commands import test_bundle, test_lock
from tests.image import test_docker
from tests.lab import Silent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provision.artifacts.pip_config import PipConfig
    from provision.core.project import Project
    from provision.image.request import ImageRequest
    from tests.lab import Lab

pytestmark = pytest.mark.machine
Result = TypeVar("Result")
clone, image_request = test_bundle.clone, test_docker.image_request
project, sources = test_lock.project, test_lock.sources
WAITING = "another command is working on "


def at_once(count: int, work: Callable[[], Result]) -> list[Result]:
    barrier = threading.Barrier(count)

    def one(_: int) -> Result:
        barrier.wait(20)
        return work()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_attack_three_bundles_into_one_folder(clone: Lab, tmp_path: Path) -> None:
    clone.index.delay = 0.3
    out = tmp_path / "out"
    made = at_once(3, lambda: test_bundle.make(clone, out))
    assert len(made) == 3
    for bundle in made:
        assert bundle.missing == ()
        assert bundle.files == made[0].files
    waited = [step for step in clone.listener.steps if step.startswith(WAITING)]
    assert waited == [f"{WAITING}{out}; waiting for it to end"] * 2
    fetched = [path for path in clone.index.asked if path.endswith(".whl")]
    assert len(fetched) == len(set(fetched))
    assert list(tmp_path.glob(".making*")) == []
    assert test_bundle.held(out / "artifacts") == sorted(
        wheel.name for wheel in clone.wheels
    )


def test_attack_three_fetches_of_one_archive(lab: Lab, tmp_path: Path) -> None:
    lab.index.delay = 0.3
    alpha, _ = lab.wheels
    wanted = [wanted_wheel(small.artifact(alpha), f"{lab.index.url}/default/")]
    folder = tmp_path / "archives"
    failed = at_once(3, lambda: fetch_all(wanted, folder, (), lab.listener))
    assert failed == [[]] * 3
    assert test_bundle.sha256(folder / alpha.name) == test_bundle.sha256(alpha)
    assert len([path for path in lab.index.asked if path.endswith(".whl")]) == 1


def test_attack_three_builds_of_one_image(
    image_request: ImageRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Silent()
    built: list[str] = []

    def respond(words: list[str]) -> tuple[int, str, str]:
        before = small.contents(image_request.context)
        time.sleep(0.3)  # the engine reads the context
        assert small.contents(image_request.context) == before
        built.append(words[1])
        return 0, "", ""

    monkeypatch.setattr(docker, "find_engine", lambda _: "docker")
    monkeypatch.setattr(docker, "_inspect", lambda *_: ("sha256:1", 1))
    run = test_docker.answer(respond)
    at_once(3, lambda: docker.build_image(image_request, run, listener))
    assert built == ["build"] * 3
    assert len([step for step in listener.steps if step.startswith(WAITING)]) == 2


def test_attack_three_locks_of_one_target(project: Project, sources: PipConfig) -> None:
    resolver = test_lock.make_resolver(project, sources)
    results = at_once(3, lambda: lock.lock([test_lock.target()], project, resolver))
    for (result,) in results:
        assert result.error is None
    assert sorted(result.differs for (result,) in results) == [False, False, True]
    (file,) = project.lock("thing").iterdir()
    assert file.name == "requirements.txt"
