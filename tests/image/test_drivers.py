"""Which images could never prove themselves, and where the packages of their driver come from."""

from __future__ import annotations

import dataclasses
import http.server
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.devices import read_devices
from provision.catalog.snapshot import DriverSet, load_snapshot, render_snapshot
from provision.core.errors import ToolError, UsageError
from provision.core.process import Completed
from provision.core.project import Project
from provision.host.drivers import DriverVerdict, judge_version
from provision.image.context import labels, prepare_context
from provision.image.drivers import require_drivers
from provision.image.request import ImageRequest
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import read_lock
from provision.spec.model import Docker
from provision.spec.reader import load_target
from tests import small
from tests.image.driver_set import VERSION, make_set
from tests.image.python_archive import bytes_archive
from tests.lab import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
INTEL = ("arc-linux", "ipex-llm-linux", "max-linux")
NAME = f"libze-intel-gpu1_{VERSION}-0_amd64.deb"
OF_DEBIAN = Docker(apt=("libze1", "intel-opencl-icd"))


def run(argv: Sequence[str | Path], **_: object) -> Completed:
    words = [str(word) for word in argv]
    option = words.index("--target")
    packages = Path(words[option + 1])  # the toolkit's own
    packages.mkdir()
    return Completed(tuple(words), 0, "", "", 0.0)


def committed(name: str, docker: Docker | None = None) -> ImageRequest:
    """Return the request of an image of a committed target, with another table [docker]."""
    project = Project(ROOT)
    target = load_target(project.specs, name)
    if docker:
        target = target.model_copy(update={"docker": docker})
    lock = read_lock(project.lock(name))
    supply = ArtifactSources((), {}, offline=True)
    return ImageRequest(project, target, lock, supply)


@pytest.fixture
def tiny(tmp_path: Path) -> ImageRequest:
    """A target of no accelerator whose image gets a driver set of one file."""
    index = small.Index(tmp_path / "index", url="http://127.0.0.1:9")
    table = '[docker]\ndrivers = "gpu"\n'
    project = small.make_project(tmp_path / "project", index, extra=table)
    wheels = tmp_path / "wheels"
    alpha = small.make_wheel(wheels, "alpha", "1.0", {"alpha.py": ""})
    beta = small.make_wheel(wheels, "beta", "1.0", {"beta.py": ""})
    small.lock(project, [alpha, beta])
    bytes_archive(wheels, project.catalog)
    target = load_target(project.specs, small.TARGET)
    lock = read_lock(project.lock(small.TARGET))
    supply = ArtifactSources((wheels,), {"default": None}, offline=True)
    return ImageRequest(project, target, lock, supply)


def set_of_one(request: ImageRequest, url: str = "https://vendor.example") -> DriverSet:
    """Write the driver set of one package."""
    files = {NAME: b"the driver"}
    return make_set(request.project.catalog, "gpu", files, url)


def put_into_wheelhouse(request: ImageRequest, content: bytes) -> None:
    (wheelhouse,) = request.supply.wheelhouses
    (wheelhouse / NAME).write_bytes(content)


@pytest.fixture
def vendor(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A vendor's server: its folder and its address."""
    folder = tmp_path / "vendor"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with small.listening(handler) as address:
        yield folder, address


def online(request: ImageRequest) -> ImageRequest:
    supply = dataclasses.replace(request.supply, offline=False)
    return dataclasses.replace(request, supply=supply)


def test_the_distribution_s_driver_is_refused_with_the_reason() -> None:
    request = committed("max-linux", OF_DEBIAN)
    with pytest.raises(UsageError, match="max-linux could never prove") as caught:
        require_drivers(request)
    refused = caught.value
    assert "driver 22.43.24595.41-1" in refused.evidence
    assert "the package intel-opencl-icd of debian:bookworm-" in refused.evidence
    assert "is not >=2" in refused.cause
    assert 'drivers = "intel-gpu-26-14"' in refused.remedy
    assert "24-13" not in refused.remedy, "it is too old as well"


def test_the_committed_driver_sets_meet_the_floors() -> None:
    catalog = Project(ROOT).catalog
    devices = read_devices(catalog)
    for name in INTEL:
        target = committed(name).target
        assert target.docker
        assert target.docker.drivers
        drivers = load_snapshot(catalog, target.docker.drivers, DriverSet)
        required = str(target.hardware.driver)
        judged = judge_version(drivers.version, required, "intel", devices)
        assert judged.verdict is DriverVerdict.NEW_ENOUGH, judged


def test_a_set_that_is_too_old_is_refused(tmp_path: Path) -> None:
    plain = committed("max-linux")
    project = Project(tmp_path)
    shutil.copytree(plain.project.catalog, project.catalog)
    make_set(project.catalog, "gpu", {NAME: b"x"}, version="24.35.30872.22")
    docker = Docker(drivers="gpu")
    target = plain.target.model_copy(update={"docker": docker})
    request = dataclasses.replace(plain, project=project, target=target)
    with pytest.raises(UsageError, match="could never prove itself") as caught:
        require_drivers(request)
    assert "driver 24.35.30872.22" in caught.value.evidence


def test_a_package_without_a_hash_is_refused_by_name_before_anything_is_made(
    tiny: ImageRequest,
) -> None:
    files = {NAME: None, "libigdgmm12_22.9.0_amd64.deb": b"x"}
    make_set(tiny.project.catalog, "gpu", files)
    refused = "1 package of the driver set gpu without"
    with pytest.raises(UsageError, match=refused) as caught:
        prepare_context(tiny, run, Silent())
    assert caught.value.evidence == NAME
    assert "provision update gpu" in caught.value.remedy
    assert not tiny.context.parent.exists()


def test_the_context_has_the_packages_and_their_hashes(tiny: ImageRequest) -> None:
    put_into_wheelhouse(tiny, b"the driver")
    (file,) = set_of_one(tiny).files
    prepare_context(tiny, run, Silent())
    folder = tiny.context / "system" / "drivers"
    package = folder / NAME
    sums = folder / "SHA256SUMS"
    assert set(folder.iterdir()) == {package, sums}
    assert package.read_bytes() == b"the driver"
    assert sums.read_text() == f"{file.sha256}  {NAME}\n"
    assert labels(tiny)["provision.drivers"] == f"gpu {VERSION}"


def test_offline_a_wrong_or_missing_package_is_refused(tiny: ImageRequest) -> None:
    set_of_one(tiny)
    assert refused_offline(tiny, "--offline was given") == []
    put_into_wheelhouse(tiny, b"another driver")
    first, *_ = refused_offline(tiny, "copy it again")
    assert "its sha256 is not the lock's" in first


def refused_offline(request: ImageRequest, why: str) -> list[str]:
    """Return what was noted before the refusal."""
    listener = Silent()
    missing = f"could not get 1 file of the driver {VERSION}"
    with pytest.raises(ToolError, match=missing) as caught:
        prepare_context(request, run, listener)
    assert NAME in caught.value.evidence
    assert why in caught.value.evidence
    assert "unknown" not in caught.value.evidence
    assert f"https://vendor.example/{NAME}" in caught.value.evidence
    assert "--wheelhouse" in caught.value.remedy
    assert caught.value.exit_code == 3
    return listener.notes


def test_a_package_of_a_distribution_is_left_to_apt_unless_a_wheelhouse_has_it(
    tiny: ImageRequest,
) -> None:
    made = set_of_one(tiny)
    (file,) = made.files
    of_apt = file.model_copy(update={"url": None})
    without_url = made.model_copy(update={"files": (of_apt,)})
    path = tiny.project.catalog / "gpu.json"
    path.write_text(render_snapshot(without_url))
    with pytest.raises(
        ToolError, match=f"could not get 1 file of the driver {VERSION}"
    ):
        prepare_context(tiny, run, Silent())
    folder = tiny.context / "system" / "drivers"
    prepare_context(online(tiny), run, Silent())
    (sums,) = folder.iterdir()
    assert sums.name == "SHA256SUMS"
    assert sums.read_text() == f"{file.sha256}  {NAME}\n"
    put_into_wheelhouse(tiny, b"the driver")
    prepare_context(tiny, run, Silent())
    package = folder / NAME
    assert package.read_bytes() == b"the driver"


@pytest.mark.machine
def test_it_comes_from_the_vendor_by_its_hash(
    tiny: ImageRequest, vendor: tuple[Path, str]
) -> None:
    folder, url = vendor
    served = folder / NAME
    served.write_bytes(b"the driver")
    set_of_one(tiny, url)
    prepare_context(online(tiny), run, Silent())
    served.unlink()
    prepare_context(tiny, run, Silent())  # again, from what the first one kept
    package = tiny.context / "system" / "drivers" / NAME
    assert package.read_bytes() == b"the driver"
