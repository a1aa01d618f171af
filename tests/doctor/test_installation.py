"""Real environments of small wheels, damaged as people damage theirs, and mended by the remedy."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from provision.core.findings import Level
from provision.doctor import diagnose_environment
from provision.doctor.environment import read_environment
from provision.doctor.installation import read_installation
from provision.doctor.libraries import foreign_symbols
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
            [sys.executable, "-m", "uv", *words],
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


@pytest.fixture
def venv(tmp_path: Path, devices: Devices) -> Venv:
    made = Venv(tmp_path / "env", tmp_path / "wheels", devices)
    made.uv("venv", "--python", sys.executable, made.prefix)
    made.add("alpha", "1.0", ALPHA)
    return made


HARMLESS: list[Callable[[Venv], None]] = []
HARMFUL: list[tuple[str, str, Callable[[Venv], None]]] = []


def harmless(change: Callable[[Venv], None]) -> Callable[[Venv], None]:
    HARMLESS.append(change)
    return change


def harmful(
    code: str, says: str
) -> Callable[[Callable[[Venv], None]], Callable[[Venv], None]]:
    def register(change: Callable[[Venv], None]) -> Callable[[Venv], None]:
        HARMFUL.append((code, says, change))
        return change

    return register


def project(venv: Venv) -> Path:
    """Make a project with an editable installation, as build backends make one."""
    source = venv.prefix.parent / "work/src/mine"
    source.mkdir(parents=True)
    (source / "__init__.py").touch()
    (venv.site / "_mine.pth").write_text(f"{source.parent}\n")
    info = venv.site / "mine-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    origin = {"url": f"file://{source.parents[1]}", "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(origin))
    (info / "INSTALLER").write_text("uv")
    (info / "RECORD").write_text("_mine.pth,,\nmine-0.1.dist-info/METADATA,,\n")
    return source.parent


def of_conda(venv: Venv, name: str, version: str, *files: Path) -> None:
    paths = [
        {
            "_path": file.relative_to(venv.prefix).as_posix(),
            "path_type": "hardlink",
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            "size_in_bytes": file.stat().st_size,
        }
        for file in files
    ]
    (venv.prefix / "conda-meta").mkdir(exist_ok=True)
    package = {"name": name, "version": version, "paths_data": {"paths": paths}}
    (venv.prefix / f"conda-meta/{name}-{version}-0.json").write_text(
        json.dumps(package)
    )


@harmless
def nothing(venv: Venv) -> None:
    """It is left as it was installed."""


@harmless
def what_images_leave_out(venv: Venv) -> None:
    shutil.rmtree(venv.site / "alpha/tests")
    for file in (venv.prefix / "bin").glob("activate*"):
        file.unlink()


@harmless
def bytecode_without_its_source(venv: Venv) -> None:
    for module in MODULES:
        (venv.site / f"{module}c").touch()
        (venv.site / module).unlink()


@harmless
def an_editable_project(venv: Venv) -> None:
    project(venv)


@harmless
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


REAL = "from space.core import *\n" * 8


@harmless
def namespaces_and_folders_without_an_owner(venv: Venv) -> None:
    words = "# " + "licence " * 30 + "\n"
    extends = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"
    for name, tail in (("beta", "1\n"), ("gamma", "2\n")):
        own = {
            f"{name}/__init__.py": "",
            "legacy/__init__.py": words + extends + "# " + tail,
        }
        own |= {"utils/__init__.py": REAL + f"a = {tail}"}
        own |= {"bare/__init__.py": f'{words}"""What\n{words}"""\n# {tail}'}
        venv.add(name, "1.0", own)


@harmful("files-overwritten", "pyserial 3.5: space/__init__.py")
def two_packages_of_one_import_name(venv: Venv) -> None:
    venv.add("pyserial", "3.5", {"space/__init__.py": REAL, "space/core.py": "a = 1\n"})
    venv.add(
        "serial",
        "0.0.97",
        {"space/__init__.py": REAL + "b = 2\n", "space/model.py": ""},
    )


@harmless
def a_script_of_the_system(venv: Venv) -> None:
    (venv.prefix / "bin/tool").write_text("#!/usr/bin/python3\nprint()\n")
    (venv.prefix / "bin/own").write_text(f"#!{venv.prefix}/bin/python\nprint()\n")
    (venv.prefix / "bin/any").write_text("#!/usr/bin/env python3\nprint()\n")


@harmless
def a_link_to_the_environment(venv: Venv) -> None:
    venv.prefix.rename(venv.prefix.parent / "real")
    venv.prefix.symlink_to("real")
    (venv.prefix / "bin/own").write_text(
        f"#!{venv.prefix.parent}/real/bin/python\nprint()\n"
    )


@harmless
def a_package_of_the_distribution(venv: Venv) -> None:
    (venv.site / "alpha-1.0.dist-info/INSTALLER").unlink()
    (venv.site / "alpha/m1.py").unlink()


@harmless
def conda_with_a_later_pip(venv: Venv) -> None:
    info = venv.site / "alpha-1.0.dist-info"
    of_conda(venv, "numpy", "2.4.0", venv.site / "alpha/m1.py")
    of_conda(venv, "alpha", "0.9", info / "METADATA", venv.site / "alpha/m2.py")
    (info / "METADATA").write_text((info / "METADATA").read_text() + "\n\n")  # by pip
    (venv.site / "alpha/m2.py").unlink()
    venv.add("alpha", "1.0", ALPHA)


@harmful("half-installed", "alpha/m7.py")
def a_module_was_deleted(venv: Venv) -> None:
    (venv.site / "alpha/m7.py").unlink()


@harmful("half-installed", "alpha/m7.py")
def a_full_disk_left_an_empty_module(venv: Venv) -> None:
    (venv.site / "alpha/m7.py").write_text("")


@harmful("half-installed", "alpha/m0.py, alpha/m1.py, alpha/m10.py and 27 more")
def files_of_another_version_were_copied_over(venv: Venv) -> None:
    for module in MODULES:
        (venv.site / module).write_text("value = None\n")


@harmful("files-overwritten", "beta 1.0: alpha/m1.py")
def two_packages_of_the_same_files(venv: Venv) -> None:
    venv.add(
        "beta",
        "1.0",
        {"alpha/m1.py": "other = 1\n", "alpha/m2.py": MODULES["alpha/m2.py"]},
    )


@harmful("half-installed", "alpha/m1.py")
def one_of_two_packages_was_removed(venv: Venv) -> None:
    two_packages_of_the_same_files(venv)
    venv.uv("pip", "uninstall", "--python", venv.prefix, "beta")


@harmful("editable-gone", "mine: ")
def the_folder_of_an_editable_project_is_gone(venv: Venv) -> None:
    shutil.rmtree(project(venv))


@harmful("editable-gone", "old: ")
def the_folder_of_an_egg_link_is_gone(venv: Venv) -> None:
    (venv.site / "old.egg-link").write_text(f"{venv.prefix.parent}/gone\n../")


@harmful("moved-environment", "bin/run-alpha: ")
def it_was_copied(venv: Venv) -> None:
    other = venv.prefix.parent / "built-here/bin"
    (venv.prefix / "bin/run-alpha").write_text(f"#!{other}/python\nprint()\n")


@harmful("moved-environment", "bin/run-alpha: ")
def it_was_copied_and_has_a_long_path(venv: Venv) -> None:
    other = venv.prefix.parent / "built-here/bin"
    other.mkdir(parents=True)
    start = f"#!/bin/sh\n'''exec' '{other}/python3' \"$0\" \"$@\"\n' '''\nprint()\n"
    (venv.prefix / "bin/run-alpha").write_text(start)


@harmful("conda-pip-mix", "pytorch 2.8.0: uv installed torch 2.9.1")
def the_torch_of_conda_was_replaced(venv: Venv) -> None:
    venv.add("torch", "2.8.0", {"torch/__init__.py": "", "torch/a.py": "1"})
    info = venv.site / "torch-2.8.0.dist-info"
    (info / "INSTALLER").write_text("conda\n")
    of_conda(
        venv,
        "pytorch",
        "2.8.0",
        info / "INSTALLER",
        info / "METADATA",
        venv.site / "torch/a.py",
    )
    venv.add("torch", "2.9.1", {"torch/__init__.py": "", "torch/b.py": "1"})


@harmful("half-installed", "alpha 1.0: alpha/m2.py")
def a_file_of_conda_is_gone(venv: Venv) -> None:
    info = venv.site / "alpha-1.0.dist-info"
    (info / "INSTALLER").write_text("conda\n")
    of_conda(venv, "alpha", "1.0", info / "INSTALLER", venv.site / "alpha/m2.py")
    (venv.site / "alpha/m2.py").unlink()


@harmless
def bytecode_folders_that_a_record_names(venv: Venv) -> None:
    with (venv.site / "alpha-1.0.dist-info/RECORD").open("a") as record:
        record.write("alpha/__pycache__,,\n")


def plugin(venv: Venv, module: str) -> None:
    text = f"[console_scripts]\nrun = gone.cli:main\n[pytest11]\nmine = {module}\n\n[other]\na = b.c\n"
    (venv.site / "alpha-1.0.dist-info/entry_points.txt").write_text(text)


@harmless
def a_plugin(venv: Venv) -> None:
    plugin(venv, "alpha.m1")


@harmless
def a_plugin_of_an_editable_project(venv: Venv) -> None:
    project(venv).joinpath("mine/hooks.py").touch()
    plugin(venv, "mine.hooks")


@harmful("plugin-gone", "alpha: its entry point names mine.plugin")
def a_module_of_a_plugin_was_renamed(venv: Venv) -> None:
    project(venv).joinpath("mine/hooks.py").touch()
    plugin(venv, "mine.plugin")


@harmful("half-installed", "alpha 1.0: alpha/m7.py")
def an_edit_that_does_not_compile(venv: Venv) -> None:
    (venv.site / "alpha/m7.py").write_text("def value():\nreturn 7\n")


@pytest.mark.parametrize("change", HARMLESS, ids=lambda change: change.__name__)
def test_a_sound_environment_is_left_alone(
    change: Callable[[Venv], None], venv: Venv
) -> None:
    change(venv)
    assert venv.diagnose() == ()


@pytest.mark.parametrize(
    ("code", "says", "change"), HARMFUL, ids=[c.__name__ for *_, c in HARMFUL]
)
def test_damage_is_named(
    code: str, says: str, change: Callable[[Venv], None], venv: Venv
) -> None:
    change(venv)
    (found,) = [finding for finding in venv.diagnose() if finding.bad]
    assert found.code == code
    assert says in " | ".join(found.evidence)
    assert "{" not in found.symptom + found.cause + found.remedy


REPAIRED = [
    change
    for code, _, change in HARMFUL
    if code in {"half-installed", "files-overwritten"}
]


@pytest.mark.parametrize("change", REPAIRED[:5], ids=lambda change: change.__name__)
def test_the_remedy_mends_it(change: Callable[[Venv], None], venv: Venv) -> None:
    change(venv)
    remedy = venv.diagnose()[0].remedy
    if both := re.search(r"uninstall ([\w -]+), then", remedy):
        venv.uv("pip", "uninstall", "--python", venv.prefix, *both[1].split())
    for command in re.findall(r"`uv ([^`]+)`", remedy):
        venv.uv(*command.replace("'", "").split())
    assert [finding.code for finding in venv.diagnose() if finding.bad] == []


def test_an_edited_file_is_a_note(venv: Venv) -> None:
    (venv.site / "alpha/m3.py").write_text("value = 33\n")
    same_size = venv.site / "alpha/m4.py"
    same_size.write_text("value = 5\n")
    (venv.site / "alpha/data.json").unlink()
    (note,) = venv.diagnose()
    assert (note.code, note.level) == ("changed-file", Level.NOTE)
    assert set(re.findall(r"alpha/[\w.]+", note.evidence[0])) == {
        "alpha/m3.py",
        "alpha/m4.py",
        "alpha/data.json",
    }


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
    assert foreign_symbols(env) == {}
    torch = env.get("torch")
    assert torch is not None
    assert sum(".so" in entry.path for entry in torch.entries) > 5, (
        "which were looked into"
    )
