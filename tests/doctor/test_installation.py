"""Real environments of small wheels, damaged as people damage theirs, and mended by the remedy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from provision.core.program import uv_program
from provision.doctor.diagnosis import diagnose_environment
from provision.doctor.environment import read_environment
from provision.doctor.installation import read_installation
from provision.host.model import Host
from tests.small import make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provision.catalog.devices import Devices
    from provision.core.findings import Finding

pytestmark = pytest.mark.machine
HOST = Host("linux-64", "6.8")
MODULES = {f"alpha/m{number}.py": f"value = {number}\n" for number in range(30)}
ALPHA = {
    "alpha/__init__.py": "",
    "alpha/data.json": "{}",
    "alpha/tests/test_a.py": "",
    **MODULES,
}


@dataclass
class Venv:
    """A virtual environment, and the wheels that it was made from."""

    prefix: Path
    wheels: Path
    devices: Devices

    @property
    def site(self) -> Path:
        return next(self.prefix.glob("lib/python3.*/site-packages"))

    def uv(self, *words: str | Path) -> None:
        environ = os.environ | {
            "UV_OFFLINE": "1",
            "UV_NO_INDEX": "1",
            "UV_LINK_MODE": "copy",
        }
        environ |= {"UV_FIND_LINKS": str(self.wheels), "UV_NO_CONFIG": "1"}
        subprocess.run(
            [uv_program(), *words],
            check=True,
            env=environ,
            capture_output=True,
        )

    def add(self, name: str, version: str, files: dict[str, str]) -> None:
        wheel = make_wheel(self.wheels, name, version, files)
        self.uv("pip", "install", "--python", self.prefix, "--no-deps", wheel)
        # As if it came from an index: the remedy is then to take the version from there.
        (self.site / f"{name}-{version}.dist-info" / "direct_url.json").unlink()

    def diagnose(self) -> tuple[Finding, ...]:
        root = self.prefix.parent / "empty-root"
        return diagnose_environment(self.prefix, HOST, self.devices, root=root).findings


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, devices: Devices) -> Venv:
    folder = tmp_path_factory.mktemp("installed")
    made = Venv(folder / "env", folder / "wheels", devices)
    made.uv("venv", "--python", sys.executable, made.prefix)
    made.add("alpha", "1.0", ALPHA)
    return made


@pytest.fixture
def venv(installed: Venv, tmp_path: Path, devices: Devices) -> Venv:
    made = Venv(tmp_path / "env", tmp_path / "wheels", devices)
    shutil.copytree(installed.prefix, made.prefix, symlinks=True)
    shutil.copytree(installed.wheels, made.wheels)
    return made


def nothing(venv: Venv) -> None:
    """It is left as it was installed."""


def what_images_leave_out(venv: Venv) -> None:
    shutil.rmtree(venv.site / "alpha/tests")
    for file in (venv.prefix / "bin").glob("activate*"):
        file.unlink()


def bytecode_without_its_source(venv: Venv) -> None:
    for module in MODULES:
        (venv.site / f"{module}c").touch()
        (venv.site / module).unlink()


def a_namespace(venv: Venv) -> None:
    venv.add(
        "beta",
        "1.0",
        {"space/__init__.py": "a = 1", "space/b.py": "", "tests/x.py": "1"},
    )
    venv.add(
        "gamma",
        "1.0",
        {"space/__init__.py": "c = 1", "space/c.py": "", "tests/x.py": "2"},
    )


def a_package_of_the_distribution(venv: Venv) -> None:
    (venv.site / "alpha-1.0.dist-info/INSTALLER").unlink()
    (venv.site / "alpha/m1.py").unlink()


def a_module_was_deleted(venv: Venv) -> None:
    (venv.site / "alpha/m7.py").unlink()


def a_full_disk_left_an_empty_module(venv: Venv) -> None:
    (venv.site / "alpha/m7.py").write_text("")


def files_of_another_version_were_copied_over(venv: Venv) -> None:
    for module in MODULES:
        (venv.site / module).write_text("value = None\n")


def two_packages_of_the_same_files(venv: Venv) -> None:
    venv.add(
        "beta",
        "1.0",
        {"alpha/m1.py": "other = 1\n", "alpha/m2.py": MODULES["alpha/m2.py"]},
    )


def one_of_two_packages_was_removed(venv: Venv) -> None:
    two_packages_of_the_same_files(venv)
    venv.uv("pip", "uninstall", "--python", venv.prefix, "beta")


def bytecode_folders_that_a_record_names(venv: Venv) -> None:
    with (venv.site / "alpha-1.0.dist-info/RECORD").open("a") as record:
        record.write("alpha/__pycache__,,\n")


HARMLESS = (
    nothing,
    what_images_leave_out,
    bytecode_without_its_source,
    a_namespace,
    a_package_of_the_distribution,
    bytecode_folders_that_a_record_names,
)
# The code and the evidence of each damage.
HARMFUL = {
    a_module_was_deleted: ("half-installed", "alpha/m7.py"),
    a_full_disk_left_an_empty_module: ("half-installed", "alpha/m7.py"),
    files_of_another_version_were_copied_over: (
        "half-installed",
        "alpha/m10.py and 27 more",
    ),
    two_packages_of_the_same_files: ("files-overwritten", "beta 1.0: alpha/m1.py"),
    one_of_two_packages_was_removed: ("half-installed", "alpha/m1.py"),
}


@pytest.mark.parametrize("change", HARMLESS, ids=lambda change: change.__name__)
def test_a_sound_environment_is_left_alone(
    change: Callable[[Venv], None], venv: Venv
) -> None:
    change(venv)
    assert venv.diagnose() == ()


@pytest.mark.parametrize("change", HARMFUL, ids=lambda change: change.__name__)
def test_damage_is_named_and_the_remedy_mends_it(
    change: Callable[[Venv], None], venv: Venv
) -> None:
    change(venv)
    code, says = HARMFUL[change]
    (found,) = [finding for finding in venv.diagnose() if finding.bad]
    assert found.code == code
    assert says in " | ".join(found.evidence)
    assert "{" not in found.symptom + found.cause + found.remedy
    remedy = found.remedy
    if both := re.search(r"uninstall ([\w -]+), then", remedy):
        venv.uv("pip", "uninstall", "--python", venv.prefix, *both[1].split())
    for command in re.findall(r"`uv ([^`]+)`", remedy):
        venv.uv(*command.replace("'", "").split())
    assert [finding.code for finding in venv.diagnose() if finding.bad] == []


def test_a_local_wheel_is_installed_again_from_where_it_came(venv: Venv) -> None:
    (venv.site / "alpha/m7.py").unlink()
    origin = f"file://{venv.wheels}/alpha-1.0-py3-none-any.whl"
    info = venv.site / "alpha-1.0.dist-info"
    (info / "direct_url.json").write_text(
        json.dumps({"url": origin, "archive_info": {}})
    )
    assert f"--reinstall --no-deps 'alpha @ {origin}'" in venv.diagnose()[0].remedy


def test_torch_is_installed_again_from_its_own_index(venv: Venv) -> None:
    venv.add("torch", "2.9.1+xpu", {"torch/__init__.py": "", "torch/a.py": "1"})
    (venv.site / "torch/a.py").unlink()
    remedy = venv.diagnose()[0].remedy
    assert (
        "--no-deps --index-url https://download.pytorch.org/whl/xpu torch==2.9.1+xpu"
        in remedy
    )


def test_garbage_does_not_raise(venv: Venv) -> None:
    (venv.site / "alpha-1.0.dist-info/RECORD").write_bytes(
        b'alpha/m1.py,sha256=%%,x\n\xff,,"\n'
    )
    (venv.site / "bad.egg-link").write_bytes(b"\xff\0")
    (venv.prefix / "bin/bad").write_bytes(b"#!/\xff\0/python\n")
    (venv.prefix / "bin/loop").symlink_to("loop")
    (venv.prefix / "conda-meta").mkdir()
    (venv.prefix / "conda-meta/bad.json").write_bytes(b"{")
    venv.diagnose()


def test_a_real_environment_is_as_it_was_installed(python: Path) -> None:
    env = read_environment(python.parents[1])
    assert read_installation(env) == {}
