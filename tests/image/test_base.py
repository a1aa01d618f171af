"""Which base image an image gets, and which are refused: by the glibc of all that it brings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.snapshot import DriverSet, load_snapshot, render_snapshot
from provision.core.errors import UsageError
from provision.core.platforms import PLATFORMS
from provision.core.process import Completed
from provision.core.project import Project
from provision.image.base import find_base, required_glibc
from provision.image.context import dockerfile, prepare_context
from provision.image.docker import build_argv
from provision.image.drivers import require_drivers
from provision.image.interpreter import find_interpreter
from provision.image.request import ImageRequest
from provision.installer.install import ArtifactSources
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target, target_names
from tests.image.python_archive import archive_name, bytes_archive
from tests.lab import Silent

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PROJECT = Project(ROOT)
LINUX = sorted(
    name
    for name in target_names(PROJECT.specs)
    if PROJECT.lock(name).is_dir()  # one whose parts have no public hash has none
    and PLATFORMS[load_target(PROJECT.specs, name).platform].docker
)


def committed(
    name: str, base: str | None = None, drivers: str | None = None
) -> ImageRequest:
    """Return the request of an image of a committed target."""
    target = load_target(PROJECT.specs, name)
    if drivers:
        docker = target.docker.model_copy(update={"drivers": drivers})  # type: ignore[union-attr]
        target = target.model_copy(update={"docker": docker})
    supply = ArtifactSources((), {}, offline=True)
    return ImageRequest(PROJECT, target, read_lock(PROJECT.lock(name)), supply, base)


@pytest.mark.parametrize("name", LINUX)
def test_each_linux_target_has_a_base_a_python_and_a_driver(name: str) -> None:
    request = committed(name)
    require_drivers(request)
    assert "@sha256:" in find_base(request).image
    python = find_interpreter(request)
    assert str(python.version).startswith(f"{request.target.python}.")
    assert python.processor == PLATFORMS[request.target.platform].machine


def test_a_current_driver_gets_a_newer_base_and_an_older_one_the_oldest() -> None:
    assert find_base(committed("arc-linux-older")).image.startswith("debian:bookworm-")
    assert find_base(committed("arc-linux")).image.startswith("debian:trixie-")
    assert required_glibc(committed("arc-linux")) == (
        "2.38",
        "the driver set intel-gpu-26-14",
    )


def test_wheels_need_their_glibc_where_no_driver_does() -> None:
    need = required_glibc(committed("cpu-linux"))
    assert need.glibc == "2.28"
    assert "manylinux_2_28" in need.by


def test_a_base_that_is_too_old_is_refused_with_its_glibc_and_one_that_serves() -> None:
    with pytest.raises(UsageError, match=r"glibc 2\.38 or newer") as caught:
        find_base(committed("max-linux", "debian:bookworm-slim"))
    assert caught.value.evidence == "debian:bookworm-slim has glibc 2.36"
    assert "the driver set intel-gpu-26-14" in caught.value.cause
    assert "--base-image, such as debian:trixie-" in caught.value.remedy


def test_a_release_is_not_taken_for_another_and_an_unknown_base_is_left_to_the_build() -> (
    None
):
    for image in ("debian:bookwormer", "registry.example/mine:1"):
        assert find_base(committed("max-linux", image)) == (image, None, {})


def test_a_driver_that_is_newer_than_every_base_asks_for_one() -> None:
    request = committed("arc-linux", drivers="intel-gpu-debian")
    with pytest.raises(UsageError, match=r"glibc 2\.43 or newer") as caught:
        find_base(request)
    assert (
        "the newest base image of the catalog has glibc 2.41" in caught.value.evidence
    )
    named = dataclasses.replace(request, base_image="debian:sid-slim")
    assert find_base(named).image == "debian:sid-slim"


def test_a_driver_set_without_a_glibc_asks_for_none(tmp_path: Path) -> None:
    project = Project(tmp_path)
    shutil.copytree(PROJECT.catalog, project.catalog)
    path = project.catalog / "intel-gpu-26-14.json"
    known = load_snapshot(project.catalog, path.stem, DriverSet)
    path.write_text(render_snapshot(known.model_copy(update={"glibc": None})))
    request = dataclasses.replace(committed("arc-linux"), project=project)
    assert required_glibc(request).glibc == "2.28"


def test_a_python_that_no_archive_has_is_refused_with_those_that_there_are(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path)
    project.catalog.mkdir(parents=True)
    bytes_archive(tmp_path / "wheels", project.catalog)
    request = dataclasses.replace(committed("cpu-linux"), project=project)
    machine = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}[platform.machine()]
    for asked in ("3.11.1", "3.1", "3.99"):
        changes = {"python_version": asked, "platform": machine}
        target = request.target.model_copy(update=changes)
        with pytest.raises(
            UsageError, match=rf"no Python {re.escape(asked)} for an image"
        ) as error:
            find_interpreter(dataclasses.replace(request, target=target))
        assert archive_name().split("-")[1].partition("+")[0] in error.value.evidence
        assert "provision update python-standalone" in error.value.remedy


def test_cuda_images_ask_each_of_nvidia_s_hooks_for_gpus_and_nvml() -> None:
    text = dockerfile(committed("cuda-linux"))
    assert 'ENV NVIDIA_VISIBLE_DEVICES="all"' in text
    assert 'ENV NVIDIA_DRIVER_CAPABILITIES="compute,utility"' in text
    assert "NVIDIA" not in dockerfile(committed("arc-linux"))


# Without a driver, with one, and with a conda layer.
OF_EACH_KIND = ("cpu-linux", "arc-linux", "max-linux")
OTHERS = [name for name in LINUX if name not in OF_EACH_KIND]


@pytest.mark.parametrize(
    "name",
    [
        *OF_EACH_KIND,
        *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS),
    ],
)
def test_each_linux_target_has_a_context_once_its_files_are_here(
    name: str, tmp_path: Path
) -> None:
    project = Project(tmp_path / "project")
    shutil.copytree(PROJECT.specs, project.specs)
    shutil.copytree(PROJECT.lock(name), project.lock(name))
    request = dataclasses.replace(committed(name), project=project)
    wheels = tmp_path / "wheels"
    docker = request.target.docker
    # The files are gigabytes on others' servers: here they are their names, with hashes of those.
    if docker and docker.drivers:
        with_stand_ins(project.catalog, docker.drivers, wheels)
    python = find_interpreter(request)
    with_stand_ins(project.catalog, "python-standalone", wheels, python.filename)
    supply = ArtifactSources((wheels,), {"default": None}, offline=False)
    request = dataclasses.replace(request, supply=supply)
    prepare_context(request, no_tools, Silent())
    sums = (request.context / "python" / "SHA256SUMS").read_text()
    assert sums == f"{digest(python.filename)}  {python.filename}\n"
    need, _, by = (request.context / "system" / "glibc.txt").read_text().partition(" ")
    assert (need, by.strip()) == required_glibc(request)
    packages = (request.context / "system" / "packages.txt").read_text()
    assert "python" not in packages
    argv = build_argv(request, "docker", {})
    assert f"BASE_IMAGE={find_base(request).image}" in argv


def with_stand_ins(catalog: Path, name: str, wheels: Path, only: str = "") -> None:
    """Write files that have a catalog's names and nothing else, and their hashes into it."""
    wheels.mkdir(exist_ok=True)
    document = json.loads((catalog / f"{name}.json").read_text())
    for file in document["files"]:
        file["sha256"] = digest(file["filename"])
        file.pop("size", None)
        if not only or file["filename"] == only:
            (wheels / file["filename"]).write_text(file["filename"])
    (catalog / f"{name}.json").write_text(json.dumps(document))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def no_tools(argv: Sequence[str | Path], **_: object) -> Completed:
    """Answer for uv, which is asked for the toolkit's own packages."""
    words = [str(word) for word in argv]
    Path(words[words.index("--target") + 1]).mkdir()
    return Completed(tuple(words), 0, "", "", 0.0)
