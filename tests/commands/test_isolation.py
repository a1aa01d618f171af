"""Promise 4: a build takes nothing from its caller, whatever the caller's shell is full of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.lab import typed
from tests.small import SUITE, TARGET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab import Lab

pytestmark = pytest.mark.machine
MARK = "import pathlib; pathlib.Path({mark!r}).touch()\n"


def _fake_modules(folder: Path) -> Path:
    """Make a folder whose modules leave a mark when anything imports them."""
    folder.mkdir(exist_ok=True)
    mark = str(folder.parent / "polluted")
    for name in ("alpha", "torch", "sitecustomize", "usercustomize", "ssl", "json"):
        (folder / f"{name}.py").write_text(MARK.format(mark=mark), encoding="utf-8")
    return folder


def _python_path(trap: Path, _: Lab) -> dict[str, str]:
    return {"PYTHONPATH": str(_fake_modules(trap / "modules"))}


def _user_site(trap: Path, _: Lab) -> dict[str, str]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = trap / "user" / "lib" / version / "site-packages"
    site.parent.mkdir(parents=True, exist_ok=True)
    _fake_modules(site)
    info = site / "intel_extension_for_pytorch-2.1.10.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        "Name: intel-extension-for-pytorch\nVersion: 2.1.10\n"
    )
    return {"PYTHONUSERBASE": str(trap / "user")}


def _mirror(_: Path, lab: Lab) -> dict[str, str]:
    """A mirror is read on purpose; that it has a newer alpha must not matter."""
    mirror = lab.index.root / "mirror"
    make_wheel(mirror, "alpha", "9.0", {"alpha.py": "version = '9.0'\n"})
    shutil.copy(lab.wheels[0], mirror)
    return {"PIP_INDEX_URL": f"{lab.index.url}/mirror/"}


def _strangers(lab: Lab) -> str:
    folder = lab.index.root / "strangers"
    for name in ("alpha", "beta"):
        make_wheel(folder, name, "9.0", {f"{name}.py": "version = '9.0'\n"})
    return f"{lab.index.url}/strangers/"


def _pip_conf(trap: Path, lab: Lab) -> dict[str, str]:
    text = f"[global]\nextra-index-url = {_strangers(lab)}\ntarget = {trap}\nno-deps = true\n"
    (trap / "pip.conf").write_text(text, encoding="utf-8")
    return {"PIP_CONFIG_FILE": str(trap / "pip.conf")}


def _uv_toml(trap: Path, lab: Lab) -> dict[str, str]:
    text = f'[pip]\nextra-index-url = ["{_strangers(lab)}"]\nindex-strategy = "unsafe-best-match"\n'
    (trap / "uv.toml").write_text(text, encoding="utf-8")
    return {"UV_CONFIG_FILE": str(trap / "uv.toml")}


def _constraint(name: str) -> Callable[[Path, Lab], dict[str, str]]:
    def pollute(trap: Path, _: Lab) -> dict[str, str]:
        (trap / "constraint.txt").write_text("alpha==9.0\n", encoding="utf-8")
        return {name: str(trap / "constraint.txt")}

    return pollute


def _index(name: str) -> Callable[[Path, Lab], dict[str, str]]:
    return lambda _, lab: {name: _strangers(lab)}


def _folder(name: str) -> Callable[[Path, Lab], dict[str, str]]:
    return lambda trap, _: {name: str(trap)}


def _value(name: str, value: str) -> Callable[[Path, Lab], dict[str, str]]:
    return lambda *_: {name: value}


POLLUTANTS: dict[str, Callable[[Path, Lab], dict[str, str]]] = {
    "PYTHONPATH": _python_path,
    "PYTHONHOME": _folder("PYTHONHOME"),
    "PYTHONUSERBASE": _user_site,
    "PYTHONSAFEPATH": _value("PYTHONSAFEPATH", ""),
    "PIP_TARGET": _folder("PIP_TARGET"),
    "PIP_PREFIX": _folder("PIP_PREFIX"),
    "PIP_INDEX_URL": _mirror,
    "PIP_EXTRA_INDEX_URL": _index("PIP_EXTRA_INDEX_URL"),
    "PIP_CONSTRAINT": _constraint("PIP_CONSTRAINT"),
    "PIP_NO_DEPS": _value("PIP_NO_DEPS", "1"),
    "PIP_CONFIG_FILE": _pip_conf,
    "UV_INDEX": _index("UV_INDEX"),
    "UV_DEFAULT_INDEX": _index("UV_DEFAULT_INDEX"),
    "UV_EXTRA_INDEX_URL": _index("UV_EXTRA_INDEX_URL"),
    "UV_OVERRIDE": _constraint("UV_OVERRIDE"),
    "UV_CONSTRAINT": _constraint("UV_CONSTRAINT"),
    "UV_CONFIG_FILE": _uv_toml,
    "UV_PROJECT_ENVIRONMENT": _folder("UV_PROJECT_ENVIRONMENT"),
    "UV_SYSTEM_PYTHON": _value("UV_SYSTEM_PYTHON", "1"),
    "UV_PYTHON": _value("UV_PYTHON", "2.7"),
    "UV_LINK_MODE": _value("UV_LINK_MODE", "symlink"),
    "UV_COMPILE_BYTECODE": _value("UV_COMPILE_BYTECODE", "1"),
    "CONDA_PREFIX": _folder("CONDA_PREFIX"),
    "VIRTUAL_ENV": _folder("VIRTUAL_ENV"),
    "LD_LIBRARY_PATH": _folder("LD_LIBRARY_PATH"),
    "LD_PRELOAD": _value("LD_PRELOAD", "/nowhere/libtrap.so"),
    "ONEAPI_ROOT": _folder("ONEAPI_ROOT"),
    "SETVARS_COMPLETED": _value("SETVARS_COMPLETED", "1"),
}


def _tree(lab: Lab, hostile: dict[str, str], cwd: Path) -> str:
    """Build from nothing in a process of its own and return the digest of the tree."""
    environment = {
        **os.environ,
        "PIP_INDEX_URL": f"{lab.index.url}/default/",
        **hostile,
    }
    argv = [
        sys.executable,
        "-I",
        "-m",
        "provision",
        "build",
        TARGET,
        "--json",
        "--project",
    ]
    done = subprocess.run(
        [*argv, lab.project.root],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for path in lab.index.asked:
        assert not path.startswith("/strangers/")
    shutil.rmtree(lab.home)
    return str(json.loads(done.stdout)["result"]["generation"]["record"]["tree"])


@pytest.mark.slow
def test_pollutants_of_each_kind(lab: Lab, tmp_path: Path) -> None:
    clean = _tree(lab, {}, tmp_path)
    remaining = list(POLLUTANTS)
    for prefix in ("PYTHON", "PIP_", "UV_", ""):
        names = [name for name in remaining if name.startswith(prefix)]
        hostile = _polluted(lab, tmp_path / f"trap {prefix}", names)
        assert _tree(lab, hostile, tmp_path) == clean, hostile
        remaining = [name for name in remaining if name not in names]
    assert not list(tmp_path.rglob("polluted"))


def test_all_pollutants_in_a_folder_full_of_traps(lab: Lab, tmp_path: Path) -> None:
    built = lab.build().generation
    assert built is not None
    clean, trap = built.record.tree, tmp_path / "trap"
    shutil.rmtree(lab.home)
    hostile = _polluted(lab, trap, list(POLLUTANTS))
    assert hostile.keys() == POLLUTANTS.keys()
    assert _tree(lab, hostile, _fake_modules(trap / "cwd")) == clean
    assert not list(tmp_path.rglob("polluted"))


def _polluted(lab: Lab, trap: Path, names: list[str]) -> dict[str, str]:
    trap.mkdir()
    hostile = {}
    for name in names:
        hostile |= POLLUTANTS[name](trap, lab)
    return hostile


def test_attack_the_password_of_a_proxy_does_not_reach_the_checks(
    ready: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that they import could send it anywhere."""
    addresses = {
        "HTTP_PROXY": ("http://me:p@ss@proxy:3128", "http://proxy:3128"),
        "https_proxy": ("me:p@ss@proxy:3128", "proxy:3128"),
        "ALL_PROXY": ("socks5://token@proxy:1080", "socks5://proxy:1080"),
        "NO_PROXY": ("localhost,.example.org", "localhost,.example.org"),
    }
    for name, (given, _) in addresses.items():
        monkeypatch.setenv(name, given)
    run, seen = ready.project.smoke / "run.py", ready.project.root / "seen.json"
    dump = f"import os; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))"
    run.write_text(SUITE.replace("sys.exit(broken)", f"{dump}\nsys.exit(broken)"))
    assert typed("smoke", TARGET, "-C", ready.project.root).returncode == 0
    environment = json.loads(seen.read_text())
    for name, (_, shown) in addresses.items():
        assert environment[name] == shown
    assert "p@ss" not in seen.read_text()
