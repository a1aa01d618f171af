"""The wheel, installed into an environment of its own: no clone, an empty folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import NoReturn

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hatch_build import SHIPPED
from provision.artifacts.pip_config import read_pip_config
from provision.core.program import uv_program

NAME = "provision-torch"
CLONE = Path(__file__).parents[1]
PYTHONS = [f"3.{minor}" for minor in (11, 12, 13)]
# The packages of another Python come from uv's cache, or from the index.
pytestmark = [pytest.mark.release, pytest.mark.network]


def missing(what: str) -> NoReturn:
    pytest.fail(what) if os.environ.get("CI") else pytest.skip(what)


@pytest.fixture(scope="module")
def wheel() -> Path:
    made = Path(os.environ.get("PROVISION_WHEEL", "absent"))
    return made if made.is_file() else missing("`nox -s release` builds the wheel")


@pytest.fixture(
    scope="module",
    params=[pytest.param(PYTHONS[0], marks=pytest.mark.case), *PYTHONS[1:]],
)
def installed(
    request: pytest.FixtureRequest,
    wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The command of an environment with nothing but the wheel, for one Python."""
    prefix = tmp_path_factory.mktemp("tool") / "env"
    uv = [uv_program(), "--no-config"]
    others = sorted(Path.home().glob(f".pyenv/versions/{request.param}.*/bin/python"))
    python = others[-1] if others else request.param
    made = subprocess.run(
        [*uv, "venv", "--no-python-downloads", "--python", python, prefix],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        missing(f"this machine has no Python {request.param}")
    held = subprocess.run(
        [*uv, "pip", "freeze", "--python", prefix], check=True, capture_output=True
    )
    assert held.stdout == b""
    command = [
        *uv,
        "pip",
        "install",
        "--python",
        prefix,
        f"{NAME}[nox] @ {wheel.as_uri()}",
    ]
    index = read_pip_config().index_url
    subprocess.run(
        [*command, *(["--default-index", index] if index else [])],
        check=True,
        capture_output=True,
    )
    return prefix / "bin" / "provision"


def call(
    command: Path, *words: str | Path, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    bare = {"HOME": str(cwd), "PATH": os.defpath}
    return subprocess.run(
        [command, *words],
        cwd=cwd,
        env=bare | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_what_a_checkout_has(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        [shutil.which("git") or "git", "ls-files", *SHIPPED[:4], "provision"],
        cwd=CLONE,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert len(tracked) > 300
    held = {name.removeprefix("provision/shipped/") for name in names}
    assert {name for name in tracked if (CLONE / name).is_file()} <= held
    assert not [name for name in names if "__pycache__" in name]


def test_the_parts_and_the_checksums_are_those_of_the_wheel(wheel: Path) -> None:
    held = wheel.parent
    subprocess.run(
        [shutil.which("sha256sum") or "", "--check", "SHA256SUMS"], cwd=held, check=True
    )
    listed = (held / "SHA256SUMS").read_text(encoding="utf-8").split()[1::2]
    assert sorted([*listed, "SHA256SUMS"]) == sorted(
        path.name for path in held.iterdir()
    )
    (file,) = held.glob("*.cdx.json")
    text = file.read_text(encoding="utf-8")
    parts = json.loads(text)
    version = wheel.name.split("-")[1]
    whole = parts["metadata"]["component"]
    assert (whole["name"], whole["version"]) == (NAME, version)
    info = f"{wheel.name.partition('-')[0]}-{version}.dist-info/METADATA"
    stated = zipfile.ZipFile(wheel).read(info).decode()
    needed = {
        canonicalize_name(Requirement(line).name)
        for line in re.findall(r"^Requires-Dist: (.+)$", stated, re.MULTILINE)
        if "extra ==" not in line
    }
    assert len(needed) > 15
    assert needed <= {canonicalize_name(part["name"]) for part in parts["components"]}
    assert [
        word for word in ("file:", str(CLONE), str(Path.home())) if word in text
    ] == []


def test_without_a_project_it_says_what_it_knows(
    installed: Path, tmp_path: Path
) -> None:
    assert call(installed, "--help", cwd=tmp_path).returncode == 0
    assert json.loads(call(installed, "schema", cwd=tmp_path).stdout)["properties"][
        "extends"
    ]
    detected = json.loads(call(installed, "detect", "--json", cwd=tmp_path).stdout)
    assert {"cpu-linux", "arc-windows"} <= {
        fit["target"] for fit in detected["result"]["fits"]
    }
    assert call(installed, "doctor", cwd=tmp_path).returncode in {0, 1}
    refused = call(installed, "targets", cwd=tmp_path)
    assert (refused.returncode, "init" in refused.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_becomes_a_project_with_the_shipped_lock(
    installed: Path, tmp_path: Path
) -> None:
    made = call(
        installed,
        "init",
        "--target",
        "cpu-linux",
        "--target",
        "arc-linux",
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    checked = call(installed, "lock", "--check", cwd=tmp_path)
    assert (checked.returncode, checked.stdout.count("fresh")) == (0, 2)
    sessions = call(installed.with_name("nox"), "-l", "-t", "build", cwd=tmp_path)
    assert "* build-arc-linux [build] -> " in sessions.stdout
    listed = call(installed.with_name("nox"), "-s", "targets", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert call(installed, "sbom", "cpu-linux", cwd=tmp_path).stdout.startswith("{")


def test_a_repository_becomes_a_proven_environment(
    installed: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """From requirements of its own, of which nothing that the wheel ships has the lock."""
    reaching = {
        name: os.environ[name]
        for name in os.environ
        if name.startswith(("PIP_", "UV_"))
    }
    reaching["HOME"] = str(Path.home())  # with pip's configuration, and uv's cache
    (tmp_path / "requirements.txt").write_text("einops\ntorch\n", encoding="utf-8")
    # The checks run in the target's Python, which is the same for each Python of the toolkit.
    proven = request.node.callspec.params["installed"] == PYTHONS[-1]
    for words in (
        ("init", "--target", "cpu-linux"),
        ("lock", "cpu-linux"),
        ("build", "cpu-linux", *([] if proven else ["--no-smoke"])),
        ("verify", "cpu-linux", "--deep"),
        (
            "run",
            "cpu-linux",
            "--",
            "python",
            "-c",
            "import einops, torch; print(torch.ones(2))",
        ),
    ):
        done = call(installed, *words, cwd=tmp_path, **reaching)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    assert done.stdout == "tensor([1., 1.])\n"
    (row,) = json.loads(call(installed, "targets", "--json", cwd=tmp_path).stdout)[
        "result"
    ]["rows"]
    assert (row["lock"], row["built"]) == ("fresh", "proven" if proven else "skipped")
