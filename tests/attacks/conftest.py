"""The scene of each file of attacks, which a test may damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.attacks.scene import Saved, open_scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.attacks.scene import Scene


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    # A folder in a folder: what leaves the project is looked for in both.
    folder = tmp_path_factory.mktemp("scene") / "inner"
    folder.mkdir()
    with open_scene(folder) as scene:
        yield scene


@pytest.fixture(scope="module")
def saved(made: Scene) -> Saved:
    return Saved(made.root)


@pytest.fixture
def scene(made: Scene, saved: Saved) -> Iterator[Scene]:
    wheels = list(made.lab.wheels)
    yield made
    saved.restore()
    made.lab.wheels = wheels
