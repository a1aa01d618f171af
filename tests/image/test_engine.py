"""Images in a real engine: the same each time, whole, healthy on their device, and only then."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import stat
import tarfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit

from provision.artifacts.pip_config import read_pip_config
from provision.catalog.digest import catalog_digest
from provision.catalog.snapshot import (
    DriverFile,
    DriverSet,
    index_address,
    load_snapshot,
    render_snapshot,
)
from provision.commands.renew import packages_of_distribution, renewed
from provision.core.process import Completed, run
from provision.core.project import Project
from provision.environment.contents import read_contents
from provision.environment.verify import verify
from provision.image.context import prepare_context
from provision.image.docker import BuiltImage, build_argv, build_image
from provision.image.request import ImageRequest, added_layers
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import (
    PIP_LAYER,
    Lock,
    read_lock,
    render_requirements,
)
from provision.spec.extends import resolved, spec_chain
from provision.spec.model import Docker, Target
from provision.spec.reader import load_target
from tests import small
from tests.image.conftest import BASE, Silent, inside, remove
from tests.image.driver_set import LIBRARY, make_deb, make_set
from tests.image.python_archive import write_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
CURRENT = os.environ.get("PROVISION_TEST_CURRENT_IMAGE", "local/debian:sid")
# A torch that was built for XPU and finds no device. It is no torch: what the checks of a device
# ask first is answered as torch 2.9 does, the rest only imports.
STAND_IN = """
import importlib.abc, importlib.machinery, sys
from torch.version import __version__

class Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls
    def __getitem__(cls, key):
        return cls
    def __call__(cls, *arguments, **names):
        return cls

class Blank(metaclass=Anything):
    pass

class device:
    def __init__(self, kind, index=0):
        self.type = kind

class xpu:
    _is_compiled = staticmethod(lambda: True)
    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 0)
    @staticmethod
    def init():
        raise RuntimeError("No XPU devices are available.")

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("torch."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def exec_module(self, module):
        module.__getattr__ = lambda name: Anything.__getattr__(Blank, name)

sys.meta_path.append(Finder())
def __getattr__(name):
    return Anything.__getattr__(Blank, name)
"""
VERSION = "__version__ = '{version}'\ncuda = None\nhip = None\nxpu = '20250301'\n"


def from_scratch(argv: Sequence[str | Path], **options: Any) -> Completed:  # noqa: ANN401 - run's own
    """Run, but let no build take anything from the engine's cache."""
    words = list(argv)
    if words[1] == "build":
        words.insert(2, "--no-cache")
    return run(words, **options)


@contextlib.contextmanager
def started(
    engine: str, image: str, *flags: str, command: str = "sleep 600"
) -> Iterator[str]:
    """Start a container, and remove it when the block ends."""
    name = f"provision-test-{uuid.uuid4().hex[:8]}"
    # Otherwise a check that fails does not count in the first minutes.
    quick = ("--health-interval=1s", "--health-start-period=1ms")
    argv = [engine, "run", "--detach", "--init", "--name", name, *quick]
    run([*argv, *flags, image, *command.split()]).require("the container did not start")
    try:
        yield name
    finally:
        run([engine, "rm", "--force", name])


def health(engine: str, name: str, seconds: float = 300.0) -> tuple[str, str]:
    """Return the verdict of a container's health check and what it printed last."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        reported = run([engine, "inspect", "--format", "{{json .State.Health}}", name])
        state = json.loads(reported.require("it is there").stdout)
        if state["Status"] != "starting":
            return state["Status"], state["Log"][-1]["Output"]
        time.sleep(0.2)
    raise AssertionError(f"{name} has no verdict after {seconds:.0f} s")


def layers(engine: str, image: str) -> list[str]:
    reported = run(
        [engine, "image", "inspect", "--format", "{{json .RootFS.Layers}}", image]
    )
    return list(json.loads(reported.require("it is there").stdout))


def test_two_builds_from_scratch_are_the_same_image(
    tiny: tuple[ImageRequest, BuiltImage], engine: str, tmp_path: Path
) -> None:
    # Not so the engine's own digests: it lists a layer in one of two orders.
    image_request, first = tiny
    second = build_image(
        image_request, from_scratch, Silent(), layout=tmp_path / "second.tar"
    )
    assert second.digest == first.digest
    assert first.layout is not None
    assert second.layout is not None
    assert first.layout.read_bytes() == second.layout.read_bytes()
    # An engine that loads it keeps its digests; those of the base image are the base's.
    run([engine, "load", "--input", str(second.layout)]).require("it loads")
    loaded, base = layers(engine, second.tag), layers(engine, BASE)
    assert loaded[: len(base)] == base
    assert len(loaded) == len(base) + added_layers()
    with tarfile.open(second.layout) as archive:
        (image,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert [f"blobs/{layer.replace(':', '/')}" for layer in loaded] == image["Layers"]


@pytest.fixture
def with_drivers(
    tiny: tuple[ImageRequest, BuiltImage], tmp_path: Path, engine: str
) -> Iterator[ImageRequest]:
    """The miniature with a driver set of two real packages, one of which needs the other."""
    plain, _ = tiny
    debs = [
        make_deb(
            tmp_path,
            "libigdgmm12",
            {"usr/lib/x86_64-linux-gnu/libigdgmm.so.12": "memory"},
        ),
        make_deb(
            tmp_path,
            "libze-intel-gpu1",
            {LIBRARY: "driver"},
            depends="libc6, libigdgmm12",
        ),
    ]
    make_set(plain.project.catalog, "gpu", {deb.name: deb.read_bytes() for deb in debs})
    shutil.copy(
        plain.project.specs / "tiny.toml", plain.project.specs / "tiny-gpu.toml"
    )
    lock = plain.project.lock("tiny-gpu")
    shutil.copytree(plain.lock.folder, lock, dirs_exist_ok=True)
    wheelhouses = (*plain.supply.wheelhouses, tmp_path)
    image_request = dataclasses.replace(
        plain,
        target=plain.target.model_copy(
            update={"name": "tiny-gpu", "docker": Docker(drivers="gpu")}
        ),
        lock=read_lock(lock),
        supply=dataclasses.replace(plain.supply, wheelhouses=wheelhouses),
    )
    yield image_request
    remove(engine, image_request)


def test_the_driver_s_packages_are_in_the_image_the_same_each_time_without_a_network(
    with_drivers: ImageRequest, engine: str, tmp_path: Path
) -> None:
    digests = {
        build_image(
            with_drivers, from_scratch, Silent(), layout=tmp_path / f"{number}.tar"
        ).digest
        for number in range(2)
    }
    assert len(digests) == 1
    shown = "dpkg-query --show --showformat='${Package} ${db:Status-Status}\\n'"
    script = f"cat /{LIBRARY}; echo; {shown} libigdgmm12 libze-intel-gpu1; ls /mnt"
    found = inside(engine, with_drivers.tag, script).require("it is there").stdout
    assert found == "driver\nlibigdgmm12 installed\nlibze-intel-gpu1 installed\n"
    remove(engine, with_drivers)


@pytest.mark.parametrize(
    "pattern",
    ["system/drivers/libze*.deb", "python/*.tar.gz"],
    ids=["driver", "python"],
)
def test_what_changed_after_the_context_was_made_ends_the_build(
    with_drivers: ImageRequest, engine: str, pattern: str
) -> None:
    prepare_context(with_drivers, run, Silent())
    (changed,) = with_drivers.context.glob(pattern)
    changed.write_bytes(changed.read_bytes() + b"\n")
    built = run(
        build_argv(with_drivers, engine, {}), env=dict(os.environ, DOCKER_BUILDKIT="1")
    )
    assert built.returncode != 0
    assert f"{changed.name}: FAILED" in built.stdout + built.stderr


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"glibc": "2.99"}, "and the driver set gpu needs glibc 2.99 or newer"),
        ({}, "apt of the base image no longer has libze-intel-gpu1=1.0-1"),
    ],
    ids=["glibc", "gone"],
)
def test_what_the_base_cannot_give_ends_the_build_with_a_sentence(
    with_drivers: ImageRequest, engine: str, facts: dict[str, str], sentence: str
) -> None:
    catalog = with_drivers.project.catalog
    known = load_snapshot(catalog, "gpu", DriverSet)
    if not facts:
        gone = DriverFile(filename="libze-intel-gpu1_1.0-1_amd64.deb", sha256="0" * 64)
        known = known.model_copy(update={"files": (gone,)})
    (catalog / "gpu.json").write_text(render_snapshot(known.model_copy(update=facts)))
    supply = dataclasses.replace(with_drivers.supply, offline=False)
    image_request = dataclasses.replace(with_drivers, supply=supply)
    prepare_context(image_request, run, Silent())
    argv = build_argv(image_request, engine, {})
    built = run(argv, env=dict(os.environ, DOCKER_BUILDKIT="1"))
    assert built.returncode
    assert sentence in built.stdout + built.stderr


def test_the_layout_loads_as_the_image_that_it_names(
    tiny: tuple[ImageRequest, BuiltImage], engine: str
) -> None:
    image_request, image = tiny
    remove(engine, image_request)
    run([engine, "load", "--input", str(image.layout)]).require("it loads")
    created = run(
        [engine, "image", "inspect", "--format", "{{.Created}}", image.tag]
    ).stdout
    assert created.startswith("2026-11-01T00:00:00")
    assert (
        inside(engine, image.tag, "python -c 'import alpha; print(alpha.x)'").returncode
        == 0
    )


@pytest.mark.case
def test_it_works_with_nothing_to_write_to_no_network_and_no_root(
    tiny: tuple[ImageRequest, BuiltImage], engine: str
) -> None:
    flags = ("--read-only", "--network=none")
    argv = [engine, "inspect", "--format", "{{json .Config.Healthcheck}}", tiny[1].tag]
    times = json.loads(run(argv).require("it is there").stdout)
    # A busy machine took 288 s for the quick checks, of which these are a part.
    assert min(times["StartPeriod"], times["Timeout"]) >= 300 * 10**9
    proven = run([engine, "run", "--rm", *flags, tiny[1].tag])
    assert proven.returncode == 0, proven.stderr
    with started(engine, tiny[1].tag, *flags) as name:
        assert health(engine, name)[0] == "healthy"
        assert run([engine, "exec", name, "id", "-u"]).stdout.strip() == "10001"
        run([engine, "kill", name]).require("killed")
        run([engine, "start", name]).require("started again")
        assert health(engine, name)[0] == "healthy"


def test_it_holds_what_is_locked_and_says_what_it_left_out(
    tiny: tuple[ImageRequest, BuiltImage], engine: str, tmp_path: Path
) -> None:
    image_request, image = tiny
    with started(engine, image.tag) as name:
        run([engine, "cp", f"{name}:/opt/env", str(tmp_path)]).require("copied")
    contents = read_contents(tmp_path / "env", small.TARGET)
    result = verify(contents, image_request.lock, (), deep=True)
    # It was copied out of the image, and a file of beta was left out with its line.
    assert [finding.code for finding in result.findings] == [
        "moved-environment",
        "foreign-record",
    ]
    assert "beta" in result.findings[1].symptom
    assert (tmp_path / "env" / "left-out.txt").read_text(encoding="utf-8").split() == [
        "alpha-1.0.dist-info/uv_cache.json",
        "beta-1.0.dist-info/uv_cache.json",
        "torch/test/big",
    ]
    assert list((tmp_path / "env").rglob("alpha.cpython-*.pyc"))


def test_it_has_no_tools_and_no_cache_and_sets_the_target_s_variables(
    tiny: tuple[ImageRequest, BuiltImage], engine: str
) -> None:
    script = (
        "for tool in gcc cc make uv pip git; do command -v $tool; done; "
        "find /root /tmp /var/lib/apt/lists /var/cache/apt -type f -size +0; "
        'echo "$TINY"'
    )
    reported = inside(engine, tiny[1].tag, script, "--user=0").stdout
    of_the_base = ("/.bashrc", "/.profile")
    shown = [line for line in reported.splitlines() if not line.endswith(of_the_base)]
    assert shown == ['$x "/opt/env"']


def test_a_check_that_fails_makes_it_unhealthy(
    tiny: tuple[ImageRequest, BuiltImage], engine: str
) -> None:
    suite = tiny[0].project.smoke.parent / "broken.py"
    suite.write_text("print('it broke')\nraise SystemExit(1)\n", encoding="utf-8")
    flag = f"--volume={suite}:/opt/provision/smoke/run.py:ro"
    with started(engine, tiny[1].tag, flag, "--health-retries=1") as name:
        assert health(engine, name) == ("unhealthy", "it broke\n")


def stand_in_wheel(folder: Path, target: str) -> Path:
    """Make a stand-in, in the locked version, for a torch that is not available here."""
    version = read_lock(ROOT / "lockfiles" / target).versions["torch"]
    files = {
        "torch/__init__.py": STAND_IN,
        "torch/version.py": VERSION.format(version=version),
    }
    return small.make_wheel(folder, "torch", version, files)


def intel_request(root: Path, name: str, python: Path, drivers: str) -> ImageRequest:
    """Return the image of a target for Intel GPUs: its own spec and checks, a stand-in for torch."""
    project = Project(root / "project")
    shutil.copytree(ROOT / "smoke", project.root / "smoke")
    shutil.copytree(ROOT / "envs" / "catalog", project.catalog)
    write_catalog(project.catalog, python)
    wheel = stand_in_wheel(root / "wheels", name)
    document = resolved(spec_chain(ROOT / "envs" / f"{name}.toml"))
    document.pop("conda", None)
    document["python"] = small.PYTHON  # of the only archive that is here
    document["docker"] = {"drivers": drivers}
    document["pip"]["requirements"] = ["torch", "pytest"]
    document["pip"].pop("index")
    text = tomlkit.dumps(document)
    (project.specs / f"{name}.toml").write_text(text, encoding="utf-8")
    target = load_target(project.specs, name)
    lock = lock_with_pytest(project, target, wheel)
    found = read_pip_config()
    wheelhouses = (root / "wheels", python.parent, *found.wheelhouses)
    supply = ArtifactSources(wheelhouses, {"default": found.index_url}, offline=False)
    return ImageRequest(project, target, lock, supply, base_image=BASE)


@pytest.fixture
def without_device(
    tmp_path: Path, engine: str, python: Path
) -> Iterator[tuple[ImageRequest, BuiltImage]]:
    """The image of a target for Intel GPUs, with a driver of one file."""
    image_request = intel_request(tmp_path, "max-linux", python, "gpu")
    deb = make_deb(tmp_path / "wheels", "libze-intel-gpu1", {LIBRARY: "driver"})
    make_set(image_request.project.catalog, "gpu", {deb.name: deb.read_bytes()})
    yield image_request, build_image(image_request, run, Silent())
    remove(engine, image_request)


def lock_with_pytest(project: Project, target: Target, wheel: Path) -> Lock:
    """Lock the stand-in, and the real pytest that the checks run with."""
    needed = {"pytest", "iniconfig", "packaging", "pluggy", "pygments"}
    real = read_lock(ROOT / "lockfiles" / "cpu-linux").artifacts
    artifacts = [artifact for artifact in real if artifact.name in needed]
    artifacts.append(dataclasses.replace(small.artifact(wheel), index="default"))
    header = {
        "spec": target.digest(),
        "catalog": catalog_digest(project.catalog, target),
        "platform": target.platform,
        "python": target.python_version,
    }
    folder = project.lock(target.name)
    folder.mkdir(parents=True)
    text = render_requirements(header, artifacts)
    (folder / PIP_LAYER).write_text(text, encoding="utf-8")
    return read_lock(folder)


def test_without_its_device_an_image_is_unhealthy_and_says_why(
    without_device: tuple[ImageRequest, BuiltImage], engine: str, tmp_path: Path
) -> None:
    tag = without_device[1].tag
    assert inside(engine, tag, f"cat /{LIBRARY}").stdout == "driver"
    with started(engine, tag, "--health-retries=1") as name:
        verdict, reported = health(engine, name)
        assert verdict == "unhealthy"
        assert (
            "failed device.ready             driver-missing: no xpu device is usable"
            in reported
        )
        logs = run([engine, "logs", name]).stderr
        assert "xpu: no /dev/dri/renderD* or /dev/dxg in this container" in logs
        assert "--device /dev/dri --group-add" in logs
    node = tmp_path / "renderD128"
    os.mknod(node, stat.S_IFCHR, os.makedev(1, 3))
    os.chown(node, 0, 4242)
    node.chmod(0o660)
    given = (f"--device={node}:/dev/dri/renderD128", "--health-retries=1")
    with started(engine, tag, *given) as name:
        assert "no-render-permission" in health(engine, name)[1]
        assert "start it with: --group-add 4242" in run([engine, "logs", name]).stderr
    with started(engine, tag, *given, "--group-add=4242") as name:
        verdict, reported = health(engine, name)
        assert verdict == "unhealthy"
        assert "no-gpu-device-visible" in reported
        assert run([engine, "logs", name]).stderr == ""


# Asks Level Zero's loader, as torch does, and each library that it or the driver opens by name.
ASK_LOADER = """
import ctypes
loader = ctypes.CDLL('libze_loader.so.1')
count = ctypes.c_uint32()
print(hex(loader.zeInit(0) % 2**32))
print(hex(loader.zeDriverGet(ctypes.byref(count), None) % 2**32), count.value)
print(hex(ctypes.CDLL('libze_intel_gpu.so.1').zeInit(0) % 2**32))
for name in ('libigc.so.2', 'libigdgmm.so.12'):
    ctypes.CDLL(name)
"""


@pytest.fixture
def current_driver(
    tmp_path: Path, engine: str, python: Path
) -> Iterator[tuple[ImageRequest, BuiltImage]]:
    """The image of arc-linux with the driver that Debian has today, on a base without Python."""
    name = "intel-gpu-debian"
    image_request = intel_request(tmp_path, "arc-linux", python, name)
    catalog = image_request.project.catalog
    # What `provision update` does where apt knows Debian unstable: its versions change each week.
    known = load_snapshot(catalog, name, DriverSet)
    packages = " ".join(packages_of_distribution(known))
    script = f"apt-get -qq update && apt-cache show --no-all-versions {packages}"
    shown = inside(engine, CURRENT, script).require("apt knows them").stdout
    text = render_snapshot(renewed(known, shown))
    (catalog / f"{name}.json").write_text(text, encoding="utf-8")
    image_request = dataclasses.replace(image_request, base_image=CURRENT)
    yield image_request, build_image(image_request, run, Silent())
    remove(engine, image_request)


@pytest.mark.case
def test_the_driver_that_debian_has_today_answers_in_an_image_without_a_device(
    current_driver: tuple[ImageRequest, BuiltImage], engine: str
) -> None:
    image_request, image = current_driver
    drivers = load_snapshot(
        image_request.project.catalog, "intel-gpu-debian", DriverSet
    )
    shown = (
        "dpkg-query --show --showformat='${Package}_${Version}_${Architecture}.deb '"
    )
    packages = " ".join(packages_of_distribution(drivers))
    installed = inside(engine, image.tag, f"{shown} {packages}").stdout.split()
    assert sorted(installed) == sorted(file.filename for file in drivers.files)
    # The only Python is the one that came by its hash.
    assert inside(engine, image.tag, "ls /usr/bin/python*").returncode
    flags = ("--read-only", "--network=none", "--env=ZE_ENABLE_LOADER_DEBUG_TRACE=1")
    asked = inside(engine, image.tag, f'python -c "{ASK_LOADER}"', *flags)
    assert asked.returncode == 0, asked.stderr
    assert "Loading Driver libze_intel_gpu.so.1 succeeded" in asked.stderr
    # ZE_RESULT_ERROR_UNINITIALIZED: a loader and a driver that find no device; so no driver counts.
    assert asked.stdout.splitlines() == ["0x78000001", "0x0 0", "0x78000001"]


def test_cpu_linux_as_it_is_committed(
    engine: str, python: Path, tmp_path: Path
) -> None:
    project = Project(tmp_path)
    for folder in ("envs", "lockfiles/cpu-linux"):
        shutil.copytree(ROOT / folder, project.root / folder)
    write_catalog(project.catalog, python)
    target = load_target(project.specs, "cpu-linux")
    found = read_pip_config()
    indexes = {
        index: index_address(project.catalog, index) for index in target.pip.index
    }
    supply = ArtifactSources(
        (python.parent, *found.wheelhouses),
        {"default": found.index_url, **indexes},
        offline=False,
    )
    lock = read_lock(project.lock("cpu-linux"))
    image = build_image(
        ImageRequest(project, target, lock, supply, base_image=BASE), run, Silent()
    )
    assert image.size < 1_000_000_000
    script = "find / -xdev -iname '*nvidia*' -o -xdev -name '*.so*' -size +600M"
    assert inside(engine, image.tag, script, "--user=0").stdout == ""
    with started(engine, image.tag, "--read-only", "--network=none") as name:
        verdict, reported = health(engine, name)
        assert verdict == "healthy", reported
        areas = {line.split()[1].split(".")[0] for line in reported.splitlines()}
        assert areas == {"identity", "device", "known-wrong"}
        run([engine, "kill", name]).require("killed")
        run([engine, "start", name]).require("started again")
        assert health(engine, name)[0] == "healthy"
