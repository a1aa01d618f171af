"""A real engine, and a small image in it, for the tests of what an engine and others do with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from provision.core.process import Completed, run
from provision.image.docker import BuiltImage, build_image, find_engine
from provision.image.request import ImageRequest
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests import small
from tests.image.python_archive import real_archive, write_catalog
from tests.lab import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BASE = os.environ.get("PROVISION_TEST_BASE_IMAGE", "local/debian:bookworm")


@pytest.fixture(scope="module")
def engine() -> str:
    found = find_engine(run)
    run([found, "image", "inspect", BASE]).require(
        f"there is no base image {BASE}", remedy="`.ci/engine` makes it"
    )
    return found


def inside(engine: str, image: str, script: str, *flags: str) -> Completed:
    return run([engine, "run", "--rm", *flags, image, "sh", "-c", script])


def remove(engine: str, image_request: ImageRequest) -> None:
    run(
        [
            engine,
            "image",
            "rm",
            "--force",
            image_request.tag,
            f"{image_request.name}:latest",
        ]
    )


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a Python that works in any folder of any base."""
    return real_archive(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def tiny(
    tmp_path_factory: pytest.TempPathFactory, engine: str, python: Path
) -> Iterator[tuple[ImageRequest, BuiltImage]]:
    """A project in miniature and its image, with its layout."""
    root = tmp_path_factory.mktemp("tiny")
    project = small.make_project(
        root / "project",
        small.Index(root / "index", url="http://127.0.0.1:9"),
        extra='[environment]\nTINY = "$x \\"{prefix}\\""\n[docker]\n',
    )
    alpha = small.make_wheel(
        root / "default", "alpha", "1.0", {"alpha.py": "x = {'a', 'b'}\n"}
    )
    beta = small.make_wheel(
        root / "vendor", "beta", "1.0", {"beta.py": "", "torch/test/big": "x" * 9999}
    )
    small.lock(project, [alpha, beta])
    write_catalog(project.catalog, python)
    image_request = ImageRequest(
        project,
        load_target(project.specs, small.TARGET),
        read_lock(project.lock(small.TARGET)),
        ArtifactSources(
            wheelhouses=(alpha.parent, beta.parent, python.parent),
            indexes={"default": None},
            offline=True,
        ),
        base_image=BASE,
    )
    yield (
        image_request,
        build_image(image_request, run, Silent(), layout=root / "first.tar"),
    )
    remove(engine, image_request)
