"""The wheel, installed into an environment of its own: no clone, an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hatch_build import SHIPPED
from provision.artifacts.pip_config import read_pip_config
from provision.core.program import uv_program

CLONE = Path(__file__).parents[1]
# Those of this machine that the toolkit supports; one more than that of the tests has to be there.
PYTHONS = [f"3.{minor}" for minor in (11, 12, 13)]
pytestmark = pytest.mark.network  # the packages of another Python come from uv's cache, or not


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    argv = [uv_program(), "build", "--wheel", "--offline", "--no-build-isolation", "--no-config",
            "--python", sys.executable, "-o", out, CLONE]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module", params=PYTHONS)
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The command of an environment with nothing but the wheel, for one Python."""
    prefix = tmp_path_factory.mktemp("tool") / "env"
    uv = [uv_program(), "--no-config"]
    others = sorted(Path.home().glob(f".pyenv/versions/{request.param}.*/bin/python"))
    python = others[-1] if others else request.param
    made = subprocess.run(
        [*uv, "venv", "--no-python-downloads", "--python", python, prefix],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"this machine has no Python {request.param}")
    command = [*uv, "pip", "install", "--python", prefix, f"provision[nox] @ {wheel.as_uri()}"]
    index = read_pip_config().index_url
    subprocess.run([*command, *(["--default-index", index] if index else [])], check=True,
                   capture_output=True)  # fmt: skip
    return prefix / "bin" / "provision"


def call(command: Path, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    bare = {"HOME": str(cwd), "PATH": os.defpath}
    return subprocess.run(
        [command, *words], cwd=cwd, env=bare, capture_output=True, text=True, check=False
    )


def test_the_wheel_holds_what_a_checkout_has(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        [shutil.which("git") or "git", "ls-files", *SHIPPED[:4], "provision"],
        cwd=CLONE, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert len(tracked) > 300
    held = {name.removeprefix("provision/shipped/") for name in names}
    assert {name for name in tracked if (CLONE / name).is_file()} <= held
    assert not [name for name in names if "__pycache__" in name]


def test_without_a_project_it_says_what_it_knows(installed: Path, tmp_path: Path) -> None:
    assert call(installed, "--help", cwd=tmp_path).returncode == 0
    assert json.loads(call(installed, "schema", cwd=tmp_path).stdout)["properties"]["extends"]
    detected = json.loads(call(installed, "detect", "--json", cwd=tmp_path).stdout)
    assert {"cpu-linux", "arc-windows"} <= {fit["target"] for fit in detected["result"]["fits"]}
    assert call(installed, "doctor", cwd=tmp_path).returncode in {0, 1}
    refused = call(installed, "targets", cwd=tmp_path)
    assert (refused.returncode, "init" in refused.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_becomes_a_project_with_the_shipped_lock(
    installed: Path, tmp_path: Path
) -> None:
    made = call(installed, "init", "--target", "cpu-linux", "--target", "arc-linux", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    checked = call(installed, "lock", "--check", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.count("fresh")) == (0, 2)
    sessions = call(installed.with_name("nox"), "-l", "-t", "build", cwd=tmp_path)
    assert "* build-arc-linux [build] -> " in sessions.stdout
    listed = call(installed.with_name("nox"), "-s", "targets", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert call(installed, "sbom", "cpu-linux", cwd=tmp_path).stdout.startswith("{")
