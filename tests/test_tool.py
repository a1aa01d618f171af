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
    if not made.is_file():
        missing("`nox -s release` builds the wheel")
    return made


OLDEST, *NEWER = PYTHONS
CASE = pytest.param(OLDEST, marks=pytest.mark.case)


@pytest.fixture(scope="module", params=[CASE, *NEWER])
def installed(
    request: pytest.FixtureRequest,
    wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The command of an environment with nothing but the wheel, for one Python."""
    prefix = tmp_path_factory.mktemp("tool") / "env"
    uv = [uv_program(), "--no-config"]
    version = request.param
    others = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = others[-1] if others else version
    venv = [*uv, "venv", "--no-python-downloads", "--python", python, prefix]
    made = subprocess.run(venv, capture_output=True, check=False)
    if made.returncode:
        missing(f"this machine has no Python {version}")
    install = [*uv, "pip", "install", "--python", prefix]
    install.append(f"{NAME}[nox] @ {wheel.as_uri()}")
    index = read_pip_config().index_url
    if index:
        install += ["--default-index", index]
    subprocess.run(install, check=True, capture_output=True)
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


def succeed(command: Path, *words: str | Path, cwd: Path, **variables: str) -> str:
    done = call(command, *words, cwd=cwd, **variables)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_holds_what_a_checkout_has(wheel: Path) -> None:
    held = set()
    for name in zipfile.ZipFile(wheel).namelist():
        assert "__pycache__" not in name
        held.add(name.removeprefix("provision/shipped/"))
    git = shutil.which("git") or "git"
    done = subprocess.run(
        [git, "ls-files", *SHIPPED[:4], "provision"],
        cwd=CLONE,
        check=True,
        capture_output=True,
        text=True,
    )
    tracked = done.stdout.split()
    assert len(tracked) > 300
    for name in tracked:
        if (CLONE / name).is_file():
            assert name in held


def test_the_parts_and_the_checksums_are_those_of_the_wheel(wheel: Path) -> None:
    held = wheel.parent
    program = shutil.which("sha256sum") or ""
    subprocess.run([program, "--check", "SHA256SUMS"], cwd=held, check=True)
    sums = held / "SHA256SUMS"
    listed = [sums.name]
    for line in sums.read_text(encoding="utf-8").splitlines():
        _, name = line.split()
        listed.append(name)
    assert sorted(listed) == sorted(path.name for path in held.iterdir())
    (file,) = held.glob("*.cdx.json")
    text = file.read_text(encoding="utf-8")
    parts = json.loads(text)
    distribution, version, *_ = wheel.name.split("-")
    whole = parts["metadata"]["component"]
    assert whole["name"] == NAME
    assert whole["version"] == version
    info = f"{distribution}-{version}.dist-info/METADATA"
    stated = zipfile.ZipFile(wheel).read(info).decode()
    needed = set()
    for line in re.findall(r"^Requires-Dist: (.+)$", stated, re.MULTILINE):
        if "extra ==" not in line:
            requirement = Requirement(line)
            needed.add(canonicalize_name(requirement.name))
    assert len(needed) > 15
    components = {canonicalize_name(part["name"]) for part in parts["components"]}
    assert needed <= components
    for private in ("file:", str(CLONE), str(Path.home())):
        assert private not in text


def test_without_a_project_it_says_what_it_knows(
    installed: Path, tmp_path: Path
) -> None:
    schema = json.loads(succeed(installed, "schema", cwd=tmp_path))
    assert schema["properties"]["extends"]
    detected = json.loads(succeed(installed, "detect", "--json", cwd=tmp_path))
    targets = {fit["target"] for fit in detected["result"]["fits"]}
    assert {"cpu-linux", "arc-windows"} <= targets
    diagnosed = call(installed, "doctor", cwd=tmp_path)
    assert diagnosed.returncode in {0, 1}
    refused = call(installed, "targets", cwd=tmp_path)
    assert refused.returncode == 2
    assert "init" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_becomes_a_project_with_the_shipped_lock(
    installed: Path, tmp_path: Path
) -> None:
    targets = ("--target=cpu-linux", "--target=arc-linux")
    succeed(installed, "init", *targets, cwd=tmp_path)
    locks = succeed(installed, "lock", "--check", cwd=tmp_path)
    assert locks.count("fresh") == 2
    nox = installed.with_name("nox")
    sessions = succeed(nox, "-l", "-t", "build", cwd=tmp_path)
    assert "* build-arc-linux [build] -> " in sessions
    succeed(nox, "-s", "targets", cwd=tmp_path)
    sbom = succeed(installed, "sbom", "cpu-linux", cwd=tmp_path)
    assert sbom.startswith("{")


def test_a_repository_becomes_a_proven_environment(
    installed: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """From requirements of its own, of which nothing that the wheel ships has the lock."""
    # With pip's configuration, and uv's cache.
    names = [name for name in os.environ if name.startswith(("PIP_", "UV_"))]
    reaching = {name: os.environ[name] for name in [*names, "HOME"]}
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("einops\ntorch\n", encoding="utf-8")
    # The checks run in the target's Python, which is the same for each Python of the toolkit.
    proven = request.node.callspec.params["installed"] == PYTHONS[-1]
    build = "build cpu-linux" if proven else "build cpu-linux --no-smoke"
    for line in (
        "init --target cpu-linux",
        "lock cpu-linux",
        build,
        "verify cpu-linux --deep",
    ):
        words = line.split()
        succeed(installed, *words, cwd=tmp_path, **reaching)
    code = "import einops, torch; print(torch.ones(2))"
    command = ["run", "cpu-linux", "--", "python", "-c", code]
    printed = succeed(installed, *command, cwd=tmp_path, **reaching)
    assert printed == "tensor([1., 1.])\n"
    listed = json.loads(succeed(installed, "targets", "--json", cwd=tmp_path))
    (row,) = listed["result"]["rows"]
    assert row["lock"] == "fresh"
    assert row["built"] == ("proven" if proven else "skipped")
